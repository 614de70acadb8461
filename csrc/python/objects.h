/* Python objects that are made in many places: texts, tuples, lists, calls of Python modules. */
#ifndef EC_PYTHON_OBJECTS_H
#define EC_PYTHON_OBJECTS_H

#include "python/state.h"

/* The function and flags of a row of PyMethodDef for functions with keyword arguments. */
#define ECPY_KEYWORDS(fn) (PyCFunction)(void (*)(void))(fn), METH_VARARGS | METH_KEYWORDS

/* A string of a file as str (bytes that are no UTF-8 are replaced); None for NULL. */
PyObject *ecpy_text(const char *text);

/* An int; None for -1. */
PyObject *ecpy_index_or_none(int64_t index);

/* A tuple of ints. */
PyObject *ecpy_int_tuple(const int64_t *items, size_t count);
/* The same as a list. */
PyObject *ecpy_int_list(const int64_t *items, size_t count);
/* A dim_order as a tuple. */
PyObject *ecpy_dim_order(const uint8_t *order, size_t rank);

/* Appends and takes an item. A NULL list or item means that something failed before; then, and
 * where this fails, the list is dropped and NULL. */
void ecpy_append(PyObject **list, PyObject *item);

/* New reference to module.name(argument); argument NULL: no argument. For parts that are written
 * in Python: notebook tables, discovery of backends. */
PyObject *ecpy_call_python(const char *module, const char *name, PyObject *argument);

/* Makes a type of this module from a spec and adds it to the module under its name. */
int ecpy_add_type(PyObject *module, PyType_Spec *spec, PyTypeObject **slot);

#endif
