/* Values of the runtime as Python objects. All numbers and lists are created here. */
#ifndef EC_PYTHON_VALUES_H
#define EC_PYTHON_VALUES_H

#include "core/value.h"
#include "python/state.h"
#include "runtime/describe.h"

/* Returns an int, float or bool; None for another kind. */
PyObject *ecpy_scalar_object(ec_scalar scalar);

/* Returns the object for a list item: an int, a tensor or None. */
typedef PyObject *(*ecpy_item_fn)(void *user, const ec_value *item);

/* Returns a value of a list kind as a list, charged to the budget of the current call. */
PyObject *ecpy_list_object(ecpy_state *state, const ec_value *value, ecpy_item_fn fn, void *user);

/* Returns a value as the result of a method, tensors copied. NULL with NotSupportedError for other
 * kinds. */
PyObject *ecpy_value_object(ecpy_state *state, const ec_value *value);

/* Returns the value of a description that is not a tensor: a number or str; None for other
 * kinds. */
PyObject *ecpy_described_object(const ec_value_info *info);

#endif
