/* Calls of a method. */
#ifndef EC_PYTHON_CALL_H
#define EC_PYTHON_CALL_H

#include "python/method.h"
#include "python/state.h"

/* Runs the method. `out` is NULL, or the caller's out=. Returns the results as a new list or
 * tuple. */
PyObject *ecpy_method_run(ecpy_method *self, PyObject *const *items, size_t count, PyObject *out,
                          bool as_tuple);

/* Returns a new tuple: the list of results, and a list of (index, array) for inputs that the
 * program changed in place. The caller's arrays are unchanged. */
PyObject *ecpy_method_run_mutating(ecpy_method *self, PyObject *const *items, size_t count);

#endif
