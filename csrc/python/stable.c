/* Names of types, which the stable ABI hides. */
#include <Python.h>
#include <stdbool.h>
#include <stdio.h>

#include "python/stable.h"

/* Appends an attribute of a type to a name. */
static void append_name(PyObject *type, const char *attribute, char *name, size_t size) {
  PyObject *text = PyObject_GetAttrString(type, attribute);
  const char *utf8 = text && PyUnicode_Check(text) ? PyUnicode_AsUTF8(text) : NULL;
  const size_t used = strlen(name);
  if (utf8 && strcmp(utf8, "builtins") != 0)
    snprintf(name + used, size - used, "%s%s", used ? "." : "", utf8);
  Py_XDECREF(text);
  PyErr_Clear();
}

const char *ecpy_type_name(PyObject *object) {
  static _Thread_local char name[256];
  PyObject *type = (PyObject *)Py_TYPE(object);
  name[0] = 0;
  if (!(PyType_GetFlags(Py_TYPE(object)) & Py_TPFLAGS_HEAPTYPE))
    append_name(type, "__module__", name, sizeof name);
  append_name(type, "__name__", name, sizeof name);
  return name;
}
