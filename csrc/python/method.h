/* The Method object: its struct, its lock, and the slots of its inputs and outputs. */
#ifndef EC_PYTHON_METHOD_H
#define EC_PYTHON_METHOD_H

#include "python/program_ref.h"
#include "python/state.h"
#include "runtime/method.h"

/* The properties of an input or output that calls need, read once at loading. */
typedef struct ecpy_slot {
  uint8_t kind;     /* an ec_kind */
  uint8_t dtype;    /* an ec_dtype, of tensors */
  uint8_t rank;
  bool fixed;       /* an output of static shape, which can be allocated before the call */
  bool row_major;
  PyArray_Descr *descr; /* of tensors that can be outputs */
  size_t nbytes;        /* with the shape below, for static outputs */
  npy_intp sizes[EC_MAX_RANK], strides[EC_MAX_RANK]; /* strides in bytes */
} ecpy_slot;

typedef struct ecpy_method {
  PyObject_HEAD
  vectorcallfunc vectorcall;
  ecpy_state *state;
  ecpy_program_ref *ref;
  ec_method *method;
  /* Set until other code gets a reference: until then, statistics need no lock, which another
   * method may hold for long. */
  bool fresh;
  PyObject *meta;      /* MethodMeta, created at first use */
  ec_trace *trace;     /* NULL: not traced */
  PyObject *alter;     /* the function that the trace calls with results; or NULL */
  ec_trace *record;    /* the trace for an ETDump, in the absence of another one; NULL */
  size_t record_data;  /* the limit on its values */
  uint64_t load_start, load_ns;
  size_t input_count, output_count;
  ecpy_slot *inputs, *outputs;
} ecpy_method;

/* Locks the method, without the GIL while another thread holds the lock. Returns -1 with
 * InvalidStateError if this thread already holds it (a Python operator, or a finalizer, that calls
 * the running method), or a thread lost in a fork does; or with an exception of a signal
 * handler. */
int ecpy_method_lock(ecpy_method *self);
void ecpy_method_unlock(ecpy_method *self);

/* Returns the MethodMeta of a method: borrowed, NULL with an exception. */
PyObject *ecpy_method_get_meta(ecpy_method *self);

/* Reads one slot. Shapes are the tensor's current ones: upper bounds if dynamic and before the
 * first call. Holds a reference to the dtype. */
int ecpy_slot_read(ecpy_state *state, const ec_value *value, bool fixed, ecpy_slot *slot);

/* Reads the slots of all inputs and outputs of the loaded method; -1 with an exception. */
int ecpy_method_read_slots(ecpy_method *self);
void ecpy_method_free_slots(ecpy_method *self);

#endif
