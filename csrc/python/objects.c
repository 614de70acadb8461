/* Helpers to create common Python objects. */
#include "python/state.h"

#include "python/objects.h"

#include "core/limits.h"

PyObject *ecpy_text(const char *text) {
  if (!text) Py_RETURN_NONE;
  return PyUnicode_DecodeUTF8(text, (Py_ssize_t)strlen(text), "replace");
}

const char *ecpy_utf8(PyObject *text) {
  Py_ssize_t size;
  const char *utf8 = PyUnicode_AsUTF8AndSize(text, &size);
  if (!utf8 || strlen(utf8) == (size_t)size) return utf8;
  PyErr_Format(PyExc_ValueError, "%R has a null character", text);
  return NULL;
}

PyObject *ecpy_index_or_none(int64_t index) {
  return index < 0 ? Py_NewRef(Py_None) : PyLong_FromLongLong(index);
}

PyObject *ecpy_int_tuple(const int64_t *items, size_t count) {
  PyObject *tuple = PyTuple_New((Py_ssize_t)count);
  for (size_t i = 0; tuple && i < count; i++) {
    PyObject *item = PyLong_FromLongLong(items[i]);
    if (item)
      PyTuple_SET_ITEM(tuple, (Py_ssize_t)i, item);
    else
      Py_CLEAR(tuple);
  }
  return tuple;
}

PyObject *ecpy_int_list(const int64_t *items, size_t count) {
  PyObject *list = PyList_New(0);
  for (size_t i = 0; list && i < count; i++) ecpy_append(&list, PyLong_FromLongLong(items[i]));
  return list;
}

PyObject *ecpy_dim_order(const uint8_t *order, size_t rank) {
  int64_t items[EC_MAX_RANK];
  for (size_t d = 0; d < rank; d++) items[d] = order[d];
  return ecpy_int_tuple(items, rank);
}

void ecpy_append(PyObject **list, PyObject *item) {
  if (!item || (*list && PyList_Append(*list, item))) Py_CLEAR(*list);
  Py_XDECREF(item);
}

PyObject *ecpy_call_python(const char *module, const char *name, PyObject *argument) {
  PyObject *imported = PyImport_ImportModule(module);
  PyObject *function = imported ? PyObject_GetAttrString(imported, name) : NULL;
  Py_XDECREF(imported);
  if (!function) return NULL;
  PyObject *result = argument ? PyObject_CallOneArg(function, argument)
                              : PyObject_CallNoArgs(function);
  Py_DECREF(function);
  return result;
}

int ecpy_add_type(PyObject *module, PyType_Spec *spec, PyTypeObject **slot) {
  *slot = (PyTypeObject *)PyType_FromModuleAndSpec(module, spec, NULL);
  return *slot ? PyModule_AddType(module, *slot) : -1;
}
