/* Copies of a method's state. */
#ifndef EC_PYTHON_STATE_COPY_H
#define EC_PYTHON_STATE_COPY_H

#include "python/method.h"
#include "python/state.h"

/* Implement Method.get_state() and set_state(). */
PyObject *ecpy_state_get(ecpy_method *self);
int ecpy_state_set(ecpy_method *self, PyObject *source);

#endif
