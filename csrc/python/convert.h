/* Conversion of Python objects to arrays for tensor inputs. */
#ifndef EC_PYTHON_CONVERT_H
#define EC_PYTHON_CONVERT_H

#include "python/method.h"

/* Returns a new reference to an aligned array in native byte order with a supported dtype: `object`
 * itself if it is one. Returns NULL with an exception that names the input. */
PyObject *ecpy_to_array(ecpy_method *self, size_t index, PyObject *object);

#endif
