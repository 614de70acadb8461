/* Attributes of a method. */
#ifndef EC_PYTHON_ATTRIBUTES_H
#define EC_PYTHON_ATTRIBUTES_H

#include "python/method.h"
#include "python/state.h"

/* Implement Method.get_attribute(), set_attribute() and attribute_names. */
PyObject *ecpy_attribute_get(ecpy_method *self, const char *name);
int ecpy_attribute_set(ecpy_method *self, const char *name, PyObject *source);
PyObject *ecpy_attribute_names(ecpy_method *self);

#endif
