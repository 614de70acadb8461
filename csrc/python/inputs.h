/* Inputs of a call: made ready while foreign code may run, bound when the method is locked. */
#ifndef EC_PYTHON_INPUTS_H
#define EC_PYTHON_INPUTS_H

#include "python/method.h"
#include "python/state.h"

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

#endif
