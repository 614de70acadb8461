/* The passes of load_method(passes=...) and Method.passes(). */
#include "python/passes.h"

#include <stdlib.h>

#include "python/objects.h"

static uint32_t all_passes(void) {
  const char *purpose;
  size_t count = 0;
  while (ec_pass_name(count, &purpose)) count++;
  return (UINT32_C(1) << count) - 1;
}

/* Returns the bit of a pass; 0 with a ValueError that lists all of them. */
static uint32_t find_pass(PyObject *name) {
  const char *known, *purpose;
  for (size_t i = 0; (known = ec_pass_name(i, &purpose)); i++)
    if (PyUnicode_Check(name) && PyUnicode_CompareWithASCIIString(name, known) == 0)
      return UINT32_C(1) << i;
  PyObject *list = PyList_New(0);
  for (size_t i = 0; list && (known = ec_pass_name(i, &purpose)); i++)
    ecpy_append(&list, PyUnicode_FromString(known));
  PyObject *comma = list ? PyUnicode_FromString(", ") : NULL;
  PyObject *text = comma ? PyUnicode_Join(comma, list) : NULL;
  if (text) PyErr_Format(PyExc_ValueError, "`passes` has %R, expected names among %U", name, text);
  Py_XDECREF(list);
  Py_XDECREF(comma);
  Py_XDECREF(text);
  return 0;
}

/* Reads an iterable of names. */
static int parse_names(PyObject *names, uint32_t *skipped) {
  PyObject *name, *iterator = PyObject_GetIter(names);
  if (!iterator) return -1;
  *skipped = all_passes();
  while ((name = PyIter_Next(iterator))) {
    const uint32_t bit = find_pass(name);
    *skipped &= ~bit;
    Py_DECREF(name);
    if (!bit) break;
  }
  Py_DECREF(iterator);
  return PyErr_Occurred() ? -1 : 0;
}

/* Splits the environment's names. */
static PyObject *split_names(const char *text) {
  PyObject *names = PyUnicode_FromString(text), *comma = PyUnicode_FromString(",");
  PyObject *list = !names || !comma ? NULL
                   : *text          ? PyUnicode_Split(names, comma, -1)
                                    : PyList_New(0);
  Py_XDECREF(names);
  Py_XDECREF(comma);
  return list;
}

int ecpy_parse_passes(PyObject *names, uint32_t *skipped) {
  const char *text = getenv("EXECUTORCH_C_PASSES");
  *skipped = 0;
  if (names == Py_None && !text) return 0;
  if (PyUnicode_Check(names)) {
    PyErr_SetString(PyExc_TypeError, "`passes` is a str, expected a list of names");
    return -1;
  }
  if (names != Py_None) return parse_names(names, skipped);
  PyObject *list = split_names(text);
  const int failed = list ? parse_names(list, skipped) : -1;
  Py_XDECREF(list);
  return failed;
}

PyObject *ecpy_method_passes(PyObject *object, PyObject *Py_UNUSED(unused)) {
  const ecpy_method *self = (ecpy_method *)object;
  const char *name, *purpose;
  PyObject *list = PyList_New(0);
  for (size_t i = 0; list && (name = ec_pass_name(i, &purpose)); i++) {
    size_t calls;
    const bool ran = ec_method_pass(self->method, i, &calls);
    ecpy_append(&list, Py_BuildValue("{s:s, s:s, s:O, s:n}", "name", name, "purpose", purpose,
                                     "ran", ran ? Py_True : Py_False, "calls",
                                     (Py_ssize_t)calls));
  }
  return list;
}
