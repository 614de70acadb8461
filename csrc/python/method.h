/* The Method object, shared by its type (method_type.c), its inputs (inputs.c), its outputs
 * (outputs.c) and its calls (call.c). */
#ifndef EC_PYTHON_METHOD_H
#define EC_PYTHON_METHOD_H

#include "python/program.h"
#include "python/state.h"
#include "runtime/method.h"

/* What a call needs to know of an input or output, read once when the method is loaded. */
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
  ecpy_program_ref *shared;
  ec_method *method;
  bool fresh;          /* nobody has it yet but who says that it is loaded: its figures need no
                        * lock, which another method may have for long */
  PyObject *meta;      /* MethodMeta, made when first asked for */
  ec_trace *trace;     /* NULL: is not being traced */
  ec_trace *record;    /* what an ETDump will have, while there is no other trace; NULL */
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

/* Runs the method; `out` is NULL, or what the caller gave for out=. The results as a new list, or
 * as a tuple. */
PyObject *ecpy_method_run(ecpy_method *self, PyObject *const *items, size_t count, PyObject *out,
                          bool as_tuple);

/* A new tuple: the list of results, and a list of (index, array) of the inputs that the program has
 * changed in place; arrays of the caller stay as they were. */
PyObject *ecpy_method_run_mutating(ecpy_method *self, PyObject *const *items, size_t count);

/* Method.get_attribute(), set_attribute() and attribute_names. */
PyObject *ecpy_attribute_get(ecpy_method *self, const char *name);
int ecpy_attribute_set(ecpy_method *self, const char *name, PyObject *source);
PyObject *ecpy_attribute_names(ecpy_method *self);

/* Reads one slot. Shapes are those of the tensor now: bounds where they are dynamic and no call has
 * been. Holds a reference of the dtype. */
int ecpy_slot_read(ecpy_state *state, const ec_value *value, bool fixed, ecpy_slot *slot);

/* What Method.backend_report() gives. */
PyObject *ecpy_method_report(ecpy_method *self);

/* ---- inputs ---- */

/* An input that is ready to be bound. */
typedef struct ecpy_input {
  PyObject *keep;   /* strong: an array, a str, or NULL */
  ec_scalar scalar; /* for a slot that is a number */
} ecpy_input;

/* Makes inputs ready; runs foreign code (__dlpack__), so it comes before locking. On failure what
 * was made before is kept in `inputs`, for ecpy_inputs_release. */
int ecpy_inputs_prepare(ecpy_method *self, PyObject *const *items, size_t count,
                        ecpy_input *inputs);
void ecpy_inputs_release(ecpy_input *inputs, size_t count);

/* Binds all inputs of the locked method. */
ec_status ecpy_inputs_bind(ecpy_method *self, const ecpy_input *inputs, ec_error *err);

/* Whether the bytes that two arrays span overlap. */
bool ecpy_overlaps(PyArrayObject *array, PyArrayObject *other);

/* Raises "method 'forward', input 1: <sentence>; expected <what>" and returns NULL. */
void *ecpy_input_error(ecpy_method *self, size_t index, const char *format, ...);

/* ---- outputs ---- */

/* A new array for a tensor of this shape and order. */
PyArrayObject *ecpy_new_array(PyArray_Descr *descr, size_t rank, const npy_intp *sizes,
                              const npy_intp *strides, bool row_major);

/* Checks out= and gives the array for each output, or NULL, in `outs`. They are held, as another
 * thread may change a list; ecpy_outs_release lets go, after failure too. */
int ecpy_outs_parse(ecpy_method *self, PyObject *out, PyArrayObject **outs);
void ecpy_outs_release(ecpy_method *self, PyArrayObject **outs);

/* Puts a new array for each output of fixed shape into `results`, or the one given by the caller
 * where it can be written directly. */
int ecpy_outputs_make(ecpy_method *self, PyArrayObject *const *outs, const ecpy_input *inputs,
                      PyObject **results);
/* Binds them. Fails where arrays of the caller are not what they were when they were looked at. */
ec_status ecpy_outputs_bind(ecpy_method *self, PyArrayObject *const *outs,
                            const ecpy_input *inputs, PyObject *const *results, ec_error *err);

/* Reads the other outputs into `results`. */
int ecpy_outputs_read(ecpy_method *self, PyObject **results);
/* Appends (index, array) for each input that the program has changed in place. */
int ecpy_mutated_read(ecpy_method *self, PyObject *list);

/* Copies results into the arrays of out= that could not be written directly. */
int ecpy_outs_finish(ecpy_method *self, PyArrayObject *const *outs, PyObject **results);

/* A new array that owns a copy of a tensor's data. */
PyObject *ecpy_tensor_copy(ecpy_state *state, const ec_tensor *tensor);

#endif
