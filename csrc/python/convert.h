/* Python objects as arrays for tensor inputs. */
#ifndef EC_PYTHON_CONVERT_H
#define EC_PYTHON_CONVERT_H

#include "python/method.h"

/* A new reference to an aligned array in native byte order, of a dtype that the runtime has: the
 * object itself where it is one. NULL with an exception that names the input. */
PyObject *ecpy_to_array(ecpy_method *self, size_t index, PyObject *object);

#endif
