/* Inputs of a call: prepared while foreign code may run, bound while the method is locked. */
#ifndef EC_PYTHON_INPUTS_H
#define EC_PYTHON_INPUTS_H

#include "python/method.h"
#include "python/state.h"

/* A prepared input. */
typedef struct ecpy_input {
  PyObject *keep;   /* strong: an array, a str, or NULL */
  ec_scalar scalar; /* for a slot with a number */
} ecpy_input;

/* Prepares inputs. It runs foreign code (__dlpack__), so it precedes locking. On failure the inputs
 * prepared so far stay in `inputs`, for ecpy_inputs_release. */
int ecpy_inputs_prepare(ecpy_method *self, PyObject *const *items, size_t count,
                        ecpy_input *inputs);
void ecpy_inputs_release(ecpy_input *inputs, size_t count);

/* Binds all inputs of the locked method. */
ec_status ecpy_inputs_bind(ecpy_method *self, const ecpy_input *inputs, ec_error *err);

#endif
