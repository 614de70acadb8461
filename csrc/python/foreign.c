/* Results and exceptions of functions written in Python, which may return and raise anything. */
#include "python/state.h"

#include "python/foreign.h"

#include "python/arrays.h"
#include "python/dlpack.h"
#include "python/dtype.h"

PyArrayObject *ecpy_foreign_array(const ecpy_foreign *f, const char *name, PyObject *object,
                                  ec_status *status) {
  *status = EC_INTERNAL; /* with an exception, unless set below */
  if (PyArray_Check(object) && (PyArray_CheckExact(object) ||
                                !PyObject_HasAttrString(object, "mask")))
    return (PyArrayObject *)Py_NewRef(object);
  if (PyArray_IsScalar(object, Generic)) return (PyArrayObject *)PyArray_FromScalar(object, NULL);
  if (!PyArray_Check(object) && PyObject_HasAttr(object, f->state->name_dlpack))
    return (PyArrayObject *)ecpy_from_dlpack(f->state, object);
  *status = ec_fail(f->err, EC_INVALID_TYPE, "%s returned %.100s for %s, expected an array",
                    f->what, object == Py_None ? "None" : ecpy_type_name(object), name);
  return NULL;
}

ec_status ecpy_foreign_dtype(const ecpy_foreign *f, const char *name, PyArrayObject *array,
                             ec_dtype expected) {
  ec_dtype dtype;
  if (!ecpy_dtype_of(f->state, PyArray_DESCR(array), expected, &dtype))
    return ec_fail(f->err, EC_INVALID_ARGUMENT,
                   "%s returned an array of NumPy dtype '%c%d' for %s, expected %s", f->what,
                   PyArray_DESCR(array)->kind, (int)PyArray_ITEMSIZE(array), name,
                   ec_dtype_name(expected));
  if (dtype == expected) return EC_OK;
  return ec_fail(f->err, EC_INVALID_ARGUMENT, "%s returned %s for %s, expected %s", f->what,
                 ec_dtype_name(dtype), name, ec_dtype_name(expected));
}

ec_status ecpy_foreign_copy(ecpy_state *state, const ec_tensor *tensor, PyArrayObject *array) {
  if (!tensor->numel) return EC_OK;
  PyArrayObject *to = ecpy_tensor_view(state, tensor);
  const int rc = to ? PyArray_CopyInto(to, array) : -1;
  Py_XDECREF((PyObject *)to);
  return rc ? EC_INTERNAL : EC_OK;
}

/* Returns the code of a runtime exception; Internal for others. */
static ec_status status_of(ecpy_state *state, PyObject *error) {
  if (PyErr_GivenExceptionMatches(error, PyExc_MemoryError)) return EC_MEMORY_ALLOCATION_FAILED;
  if (!PyErr_GivenExceptionMatches(error, state->error_type)) return EC_INTERNAL;
  PyObject *code = PyObject_GetAttrString(error, "code");
  long number = code ? PyLong_AsLong(code) : -1;
  Py_XDECREF(code);
  PyErr_Clear();
  return number > 0 && number <= INT32_MAX ? (ec_status)number : EC_INTERNAL;
}

ec_status ecpy_foreign_raised(const ecpy_foreign *f) {
  PyObject *type, *error, *trace;
  PyErr_Fetch(&type, &error, &trace);
  PyErr_NormalizeException(&type, &error, &trace);
  PyObject *text = error ? PyObject_Str(error) : NULL;
  const char *what = text ? PyUnicode_AsUTF8(text) : NULL;
  PyErr_Clear();
  ec_status status = error ? status_of(f->state, error) : EC_INTERNAL;
  ec_fail(f->err, status, "%s raised %.200s: %.900s", f->what,
          error ? ecpy_type_name(error) : "?", what ? what : "?");
  Py_XDECREF(text);
  PyErr_Restore(type, error, trace);
  return status;
}
