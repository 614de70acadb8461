/* Calls of a method. */
#ifndef EC_PYTHON_CALL_H
#define EC_PYTHON_CALL_H

#include "python/method.h"
#include "python/state.h"

/* Runs the method; `out` is NULL, or what the caller gave for out=. The results as a new list, or
 * as a tuple. */
PyObject *ecpy_method_run(ecpy_method *self, PyObject *const *items, size_t count, PyObject *out,
                          bool as_tuple);

/* A new tuple: the list of results, and a list of (index, array) of the inputs that the program has
 * changed in place; arrays of the caller stay as they were. */
PyObject *ecpy_method_run_mutating(ecpy_method *self, PyObject *const *items, size_t count);

#endif
