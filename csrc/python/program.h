/* A program shared by Program, Method and MethodMeta objects. It is counted here and not by a
 * Python object, so that Program can hold its Methods without a reference cycle: files and planned
 * memory go away with the last object that uses them, not at the next garbage collection. */
#ifndef EC_PYTHON_PROGRAM_H
#define EC_PYTHON_PROGRAM_H

#include "python/state.h"
#include "runtime/method.h"
#include "runtime/program.h"

typedef struct ecpy_program_ref {
  size_t refs; /* guarded by the GIL */
  ec_program *program;
} ecpy_program_ref;

/* Takes the program, also on failure. */
ecpy_program_ref *ecpy_program_ref_new(ec_program *program);
ecpy_program_ref *ecpy_program_ref_retain(ecpy_program_ref *shared); /* one more reference */
void ecpy_program_ref_release(ecpy_program_ref *shared);      /* NULL is allowed */

/* A string of a file as str (bytes that are no UTF-8 are replaced); None for NULL. */
PyObject *ecpy_text(const char *text);

/* Describes a method; where it needs a backend or operator that is not there, installed ones are
 * looked for first. 0, or -1 with an exception. */
int ecpy_describe(ecpy_state *state, ecpy_program_ref *shared, size_t index, ec_method_info *info);

/* Bytes of a path, a buffer, or a file object as an ec_source. 0, or -1 with an exception. */
int ecpy_source_open(ecpy_state *state, PyObject *data, ec_mlock mlock, ec_source *out);

/* Objects of this layer's types. Each takes a reference of its own to `shared`. */
/* `record_data`: bytes of values to record of each method for an ETDump; EC_NO_RECORD: nothing. */
#define EC_NO_RECORD SIZE_MAX
PyObject *ecpy_program_new(ecpy_state *state, ecpy_program_ref *shared, size_t record_data);
PyObject *ecpy_method_new(ecpy_state *state, ecpy_program_ref *shared, const char *name,
                          const ec_method_options *options);

/* A seed: any int, modulo 2^64, as eager takes negative ones. */
int ecpy_parse_seed(PyObject *object, uint64_t *seed);
/* A number of threads. */
int ecpy_parse_threads(PyObject *object, size_t *threads);
PyObject *ecpy_method_meta_new(ecpy_state *state, ecpy_program_ref *shared, size_t index);

/* The description that a MethodMeta holds. */
const ec_method_info *ecpy_method_meta_info(PyObject *meta);

/* A TensorInfo of a description that `meta` holds. */
PyObject *ecpy_tensor_info_new(ecpy_state *state, PyObject *meta, const ec_tensor_info *info);
/* "TensorInfo(sizes=[2, 2], dtype=Float, is_memory_planned=True, nbytes=16)". */
PyObject *ecpy_tensor_info_text(const ec_tensor_info *info);

/* Plain dictionaries of all that a program's file says. */
PyObject *ecpy_program_info(ecpy_state *state, ecpy_program_ref *shared);
PyObject *ecpy_program_requirements(ecpy_state *state, ecpy_program_ref *shared);

/* The whole of a method: Program._structure, _delegate and _payload, of method `name`. */
PyObject *ecpy_program_structure(ecpy_state *state, ecpy_program_ref *shared, const char *name);
PyObject *ecpy_program_delegate(ecpy_state *state, ecpy_program_ref *shared, const char *name,
                                Py_ssize_t delegate);
PyObject *ecpy_program_payload(ecpy_state *state, ecpy_program_ref *shared, const char *name,
                               Py_ssize_t delegate);

/* A tuple of ints. */
PyObject *ecpy_int_tuple(const int64_t *items, size_t count);
/* A dim_order as one. */
PyObject *ecpy_dim_order(const uint8_t *order, size_t rank);

/* Appends and takes an item. A NULL list or item means that something failed before; then, and
 * where this fails, the list is dropped and NULL. */
void ecpy_append(PyObject **list, PyObject *item);

#endif
