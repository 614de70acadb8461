/* Parsing of numeric arguments that several functions share. */
#include "python/state.h"

#include "python/arguments.h"

#include "core/threads.h"

/* Returns an int as a new reference; raises TypeError with the argument's name. */
static PyObject *parse_number(const char *name, PyObject *object) {
  PyObject *number = PyNumber_Index(object);
  if (!number && PyErr_ExceptionMatches(PyExc_TypeError))
    PyErr_Format(PyExc_TypeError, "`%s` must be an int, not %.200s", name, ecpy_type_name(object));
  return number;
}

int ecpy_parse_size(const char *name, PyObject *object, Py_ssize_t *size) {
  PyObject *number = parse_number(name, object);
  if (!number) return -1;
  *size = PyNumber_AsSsize_t(number, NULL);
  Py_DECREF(number);
  return 0;
}

int ecpy_parse_seed(PyObject *object, uint64_t *seed) {
  PyObject *number = parse_number("seed", object);
  *seed = number ? PyLong_AsUnsignedLongLongMask(number) : 0;
  Py_XDECREF(number);
  return PyErr_Occurred() ? -1 : 0;
}

int ecpy_parse_threads(PyObject *object, size_t *threads) {
  const bool is_bool = PyBool_Check(object);
  PyObject *number = is_bool ? NULL : parse_number("num_threads", object);
  if (is_bool) PyErr_SetString(PyExc_TypeError, "`num_threads` must be an int, not bool");
  int overflow = 0;
  long value = number ? PyLong_AsLongAndOverflow(number, &overflow) : -1;
  Py_XDECREF(number);
  if (PyErr_Occurred()) return -1;
  if (overflow || value < 1 || value > EC_MAX_THREADS) {
    PyErr_Format(PyExc_ValueError, "`num_threads` must be between 1 and %d, not %S", EC_MAX_THREADS,
                 object);
    return -1;
  }
  *threads = (size_t)value;
  return 0;
}

int ecpy_parse_limit(const char *name, PyObject *object, uint64_t *limit) {
  if (object == Py_None) return 0;
  const bool is_bool = PyBool_Check(object);
  PyObject *number = is_bool ? NULL : parse_number(name, object);
  if (is_bool) PyErr_Format(PyExc_TypeError, "`%s` must be an int, not bool", name);
  int overflow = 0;
  const long long value = number ? PyLong_AsLongLongAndOverflow(number, &overflow) : -1;
  Py_XDECREF(number);
  if (PyErr_Occurred()) return -1;
  if (overflow < 0 || (!overflow && value < 1)) {
    PyErr_Format(PyExc_ValueError, "`%s` must be at least 1, not %S", name, object);
    return -1;
  }
  *limit = overflow ? INT64_MAX : (uint64_t)value;
  return 0;
}
