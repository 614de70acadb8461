/* Replacements for what the stable ABI (Py_LIMITED_API, from Python 3.12 on: setup.py) lacks.
 * Included by state.h. */
#ifndef EC_PYTHON_STABLE_H
#define EC_PYTHON_STABLE_H

#include <stdlib.h>
#include <string.h>

#ifdef Py_LIMITED_API
#define PyTuple_GET_SIZE PyTuple_Size
#define PyTuple_GET_ITEM PyTuple_GetItem
#define PyTuple_SET_ITEM(tuple, i, item) ((void)PyTuple_SetItem(tuple, i, item))
#define PyList_GET_SIZE PyList_Size
#define PyList_GET_ITEM PyList_GetItem
#define PyList_SET_ITEM(list, i, item) ((void)PyList_SetItem(list, i, item))
#define PyFloat_AS_DOUBLE PyFloat_AsDouble
#define PyBytes_AS_STRING PyBytes_AsString
#define PyUnicode_AsUTF8(text) PyUnicode_AsUTF8AndSize(text, NULL)
#define PyObject_CallOneArg(callable, arg) PyObject_CallFunctionObjArgs(callable, arg, NULL)
#define PyObject_CallMethodNoArgs(self, name) PyObject_CallMethodObjArgs(self, name, NULL)
#define Py_SETREF(place, value)   \
  do {                            \
    PyObject *before_ = (place);  \
    (place) = (value);            \
    Py_DECREF(before_);           \
  } while (0)
#define Py_XSETREF(place, value)  \
  do {                            \
    PyObject *before_ = (place);  \
    (place) = (value);            \
    Py_XDECREF(before_);          \
  } while (0)
#endif

/* Returns the name of an object's type, with its module for a static type, for messages: valid
 * until the thread's next call. */
const char *ecpy_type_name(PyObject *object);

static inline void *ecpy_new_object(PyTypeObject *type) { return PyType_GenericAlloc(type, 0); }

/* Ends tp_dealloc of one of our types, which objects refer to. */
static inline void ecpy_free_object(PyObject *object) {
  PyTypeObject *type = Py_TYPE(object);
  ((freefunc)PyType_GetSlot(type, Py_tp_free))(object);
  Py_DECREF(type);
}

#endif
