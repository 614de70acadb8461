/* Backend options of load_method and BackendRegistry. Texts are copied: another thread may change a
 * dictionary while backends read them without the GIL. */
#include "python/state.h"

#include "python/options.h"

#include "core/alloc.h"
#include "python/errors.h"

/* Copies a str without NUL. */
static int copy_text(PyObject *object, const char *where, ec_arena *arena, const char **out) {
  Py_ssize_t size;
  const char *text = PyUnicode_AsUTF8AndSize(object, &size);
  if (!text) return -1;
  if (strlen(text) != (size_t)size) {
    PyErr_Format(PyExc_ValueError, "%s: %R has a null character", where, object);
    return -1;
  }
  char *copy = ec_arena_alloc(arena, (size_t)size + 1, 1);
  if (!copy) {
    ecpy_no_memory("an option");
    return -1;
  }
  *out = memcpy(copy, text, (size_t)size + 1);
  return 0;
}

static int parse_int(PyObject *key, PyObject *value, const char *where, ec_backend_option *out) {
  int overflow = 0;
  PyObject *number = PyNumber_Index(value);
  if (!number) return -1;
  out->kind = EC_BACKEND_INT;
  out->as.i = PyLong_AsLongLongAndOverflow(number, &overflow);
  if (overflow)
    PyErr_Format(PyExc_ValueError, "%s: option %R: expected an int of 64 bits, found %R", where,
                 key, number);
  Py_DECREF(number);
  return PyErr_Occurred() ? -1 : 0;
}

int ecpy_option_parse(PyObject *key, PyObject *value, const char *where, ec_arena *arena,
                      ec_backend_option *out) {
  if (!PyUnicode_Check(key)) {
    PyErr_Format(PyExc_TypeError, "%s: the name of an option must be a str, not %.200s", where,
                 ecpy_type_name(key));
    return -1;
  }
  if (copy_text(key, where, arena, &out->key)) return -1;
  if (PyBool_Check(value)) {
    out->kind = EC_BACKEND_BOOL;
    out->as.b = value == Py_True;
    return 0;
  }
  if (PyIndex_Check(value)) return parse_int(key, value, where, out);
  if (PyFloat_Check(value)) {
    out->kind = EC_BACKEND_DOUBLE;
    out->as.d = PyFloat_AS_DOUBLE(value);
    return 0;
  }
  if (PyUnicode_Check(value)) {
    out->kind = EC_BACKEND_STRING;
    return copy_text(value, where, arena, &out->as.string);
  }
  PyErr_Format(PyExc_TypeError, "%s: option %R must be a bool, int, float or str, not %.200s",
               where, key, ecpy_type_name(value));
  return -1;
}

PyObject *ecpy_option_value(const ec_backend_option *option) {
  switch (option->kind) {
  case EC_BACKEND_BOOL: return PyBool_FromLong(option->as.b);
  case EC_BACKEND_INT: return PyLong_FromLongLong(option->as.i);
  case EC_BACKEND_DOUBLE: return PyFloat_FromDouble(option->as.d);
  case EC_BACKEND_STRING: return PyUnicode_FromString(option->as.string);
  default: Py_RETURN_NONE;
  }
}

/* Returns the items of a mapping as a new list of pairs. */
static PyObject *items_of(PyObject *mapping, const char *what) {
  if (PyDict_Check(mapping) || PyObject_HasAttrString(mapping, "items"))
    return PyMapping_Items(mapping);
  PyErr_Format(PyExc_TypeError, "`%s` must be a mapping, not %.200s", what,
               ecpy_type_name(mapping));
  return NULL;
}

static PyObject *pair_item(PyObject *items, Py_ssize_t i, Py_ssize_t which) {
  PyObject *pair = PyList_GET_ITEM(items, i);
  if (PyTuple_Check(pair) && PyTuple_GET_SIZE(pair) == 2) return PyTuple_GET_ITEM(pair, which);
  PyErr_SetString(PyExc_TypeError, "`backend_options`: items() does not return pairs");
  return NULL;
}

static int parse_backend(PyObject *id, PyObject *mapping, ec_arena *arena,
                         ec_backend_options *out) {
  if (!PyUnicode_Check(id)) {
    PyErr_Format(PyExc_TypeError, "`backend_options`: the name of a backend must be a str, not "
                                  "%.200s", ecpy_type_name(id));
    return -1;
  }
  if (copy_text(id, "backend_options", arena, &out->id)) return -1;
  PyObject *items = items_of(mapping, "options of a backend in backend_options");
  if (!items) return -1;
  int rc = 0;
  Py_ssize_t count = PyList_GET_SIZE(items);
  ec_backend_option *options =
      ec_arena_alloc(arena, (size_t)(count + 1) * sizeof *options, EC_ALIGN);
  if (!options) {
    ecpy_no_memory("the options of a backend");
    rc = -1;
  }
  for (Py_ssize_t i = 0; rc == 0 && i < count; i++) {
    PyObject *key = pair_item(items, i, 0), *value = key ? pair_item(items, i, 1) : NULL;
    rc = value ? ecpy_option_parse(key, value, out->id, arena, &options[i]) : -1;
  }
  Py_DECREF(items);
  out->items = options;
  out->count = (size_t)count;
  return rc;
}

int ecpy_options_parse(PyObject *object, ec_arena *arena, ec_method_options *out) {
  if (object == Py_None) return 0;
  PyObject *items = items_of(object, "backend_options");
  if (!items) return -1;
  int rc = 0;
  Py_ssize_t count = PyList_GET_SIZE(items);
  ec_backend_options *backends =
      ec_arena_alloc(arena, (size_t)(count + 1) * sizeof *backends, EC_ALIGN);
  if (!backends) {
    ecpy_no_memory("backend_options");
    rc = -1;
  }
  for (Py_ssize_t i = 0; rc == 0 && i < count; i++) {
    PyObject *id = pair_item(items, i, 0), *mapping = id ? pair_item(items, i, 1) : NULL;
    rc = mapping ? parse_backend(id, mapping, arena, &backends[i]) : -1;
  }
  Py_DECREF(items);
  out->backends = backends;
  out->backend_count = (size_t)count;
  return rc;
}
