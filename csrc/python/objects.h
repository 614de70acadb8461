/* Helpers for Python objects: texts, tuples, lists, types, calls into Python modules. */
#ifndef EC_PYTHON_OBJECTS_H
#define EC_PYTHON_OBJECTS_H

#include "python/state.h"

/* The function and flags of a row of PyMethodDef for functions with keyword arguments. */
#define ECPY_KEYWORDS(fn) (PyCFunction)(void (*)(void))(fn), METH_VARARGS | METH_KEYWORDS

/* Returns a string of a file as str (invalid UTF-8 is replaced); None for NULL. */
PyObject *ecpy_text(const char *text);

/* Returns the UTF-8 of a str, which keeps it; NULL with a ValueError if it holds a null character,
 * because a C string would end there. */
const char *ecpy_utf8(PyObject *text);

/* Returns an int; None for -1. */
PyObject *ecpy_index_or_none(int64_t index);

/* Returns a tuple of ints. */
PyObject *ecpy_int_tuple(const int64_t *items, size_t count);
/* Returns a list of ints. */
PyObject *ecpy_int_list(const int64_t *items, size_t count);
/* Returns a dim_order as a tuple. */
PyObject *ecpy_dim_order(const uint8_t *order, size_t rank);

/* Appends and takes an item. If the list or the item is NULL (an earlier failure), or on failure,
 * releases both and sets the list to NULL. */
void ecpy_append(PyObject **list, PyObject *item);

/* Calls module.name(argument) and returns a new reference; argument NULL: no argument. For parts
 * written in Python: notebook tables, discovery of backends. */
PyObject *ecpy_call_python(const char *module, const char *name, PyObject *argument);

/* Creates a type of this module from a spec and adds it to the module under its name. */
int ecpy_add_type(PyObject *module, PyType_Spec *spec, PyTypeObject **slot);

#endif
