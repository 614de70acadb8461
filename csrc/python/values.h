/* Values of the runtime as Python objects: the one place where numbers and lists are made. */
#ifndef EC_PYTHON_VALUES_H
#define EC_PYTHON_VALUES_H

#include "core/value.h"
#include "python/state.h"
#include "runtime/describe.h"

/* An int, float or bool; None for another kind. */
PyObject *ecpy_scalar_object(ec_scalar scalar);

/* The object of an item of a list: an int, a tensor or None. */
typedef PyObject *(*ecpy_item_fn)(void *user, const ec_value *item);

/* A value of one of the list kinds as a list; charged to the budget of the present call. */
PyObject *ecpy_list_object(ecpy_state *state, const ec_value *value, ecpy_item_fn fn, void *user);

/* A value as a method returns it, tensors copied. NULL with NotSupportedError for other kinds. */
PyObject *ecpy_value_object(ecpy_state *state, const ec_value *value);

/* The value of a description that is no tensor: a number or str; None for other kinds. */
PyObject *ecpy_described_object(const ec_value_info *info);

#endif
