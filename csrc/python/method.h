/* The Method object: its struct, its lock, and the slots of its inputs and outputs. */
#ifndef EC_PYTHON_METHOD_H
#define EC_PYTHON_METHOD_H

#include "python/program_ref.h"
#include "python/state.h"
#include "runtime/method.h"

/* The facts about an input or output that calls need, read once when the method is loaded. */
typedef struct ecpy_slot {
  uint8_t kind;     /* an ec_kind */
  uint8_t dtype;    /* an ec_dtype, of tensors */
  uint8_t rank;
  bool fixed;       /* an output of fixed shape: memory can be given beforehand */
  bool row_major;
  PyArray_Descr *descr; /* of tensors that outputs can have */
  size_t nbytes;        /* with the shape below, of fixed ones */
  npy_intp sizes[EC_MAX_RANK], strides[EC_MAX_RANK]; /* strides in bytes */
} ecpy_slot;

typedef struct ecpy_method {
  PyObject_HEAD
  vectorcallfunc vectorcall;
  ecpy_state *state;
  ecpy_program_ref *ref;
  ec_method *method;
  bool fresh;          /* only the logging of its loading knows it: its figures need no lock,
                        * which another method may hold for long */
  PyObject *meta;      /* MethodMeta, made when first asked for */
  ec_trace *trace;     /* NULL: is not being traced */
  ec_trace *record;    /* the trace for an ETDump, while there is no other one; NULL */
  size_t record_data;  /* the bound of its values */
  uint64_t load_start, load_ns;
  size_t input_count, output_count;
  ecpy_slot *inputs, *outputs;
} ecpy_method;

/* Locks the method, giving up the GIL while another thread has it. -1 with InvalidStateError where
 * this very thread has it (an operator in Python, or a finalizer, that calls what is running), or a
 * thread that a fork has left behind; with what a signal's handler raises meanwhile. */
int ecpy_method_lock(ecpy_method *self);
void ecpy_method_unlock(ecpy_method *self);

/* The MethodMeta of a method: borrowed, NULL with an exception. */
PyObject *ecpy_method_get_meta(ecpy_method *self);

/* Reads one slot. Shapes are those of the tensor now: bounds where they are dynamic and no call has
 * been. Holds a reference of the dtype. */
int ecpy_slot_read(ecpy_state *state, const ec_value *value, bool fixed, ecpy_slot *slot);

/* Reads the slots of all inputs and outputs of the loaded method; -1 with an exception. */
int ecpy_method_read_slots(ecpy_method *self);
void ecpy_method_free_slots(ecpy_method *self);

#endif
