/* Inputs of a call: prepared while foreign code may run, bound while the method is locked. */
#include "python/state.h"

#include "python/inputs.h"

#include "python/convert.h"
#include "python/dtype.h"
#include "python/errors.h"
#include "python/input_errors.h"
#include "python/method.h"
#include "python/objects.h"

/* ---- preparation ------------------------------------------------------------------------- */

static bool is_real_number(PyObject *object) {
  if (PyBool_Check(object) || PyArray_IsScalar(object, Bool)) return false;
  return PyLong_Check(object) || PyFloat_Check(object) || PyArray_IsScalar(object, Integer) ||
         PyArray_IsScalar(object, Floating);
}

static int prepare_int(ecpy_method *self, size_t index, PyObject *object, ec_scalar *out) {
  if (is_real_number(object) && PyIndex_Check(object)) {
    PyObject *number = PyNumber_Index(object);
    int overflow = 0;
    out->kind = EC_KIND_INT;
    out->as.i = number ? PyLong_AsLongLongAndOverflow(number, &overflow) : -1;
    Py_XDECREF(number);
    if (!number || (out->as.i == -1 && PyErr_Occurred())) return -1;
    if (!overflow) return 0;
  }
  ecpy_input_error(self, index, "found %R", object);
  return -1;
}

static int prepare_scalar(ecpy_method *self, size_t index, PyObject *object, ec_scalar *out) {
  ec_kind kind = (ec_kind)self->inputs[index].kind;
  if (kind == EC_KIND_INT) return prepare_int(self, index, object, out);
  out->kind = kind;
  if (kind == EC_KIND_DOUBLE && is_real_number(object)) {
    out->as.d = PyFloat_AsDouble(object);
    return out->as.d == -1 && PyErr_Occurred() ? -1 : 0;
  }
  if (kind == EC_KIND_BOOL && (PyBool_Check(object) || PyArray_IsScalar(object, Bool))) {
    out->as.b = PyObject_IsTrue(object) == 1;
    return 0;
  }
  ecpy_input_error(self, index, "found %R", object);
  return -1;
}

/* True for the common case: an array that can be bound without conversion. Of another dtype, it may
 * be bytes that are bfloat16 or float8. */
static inline bool is_plain(ecpy_method *self, size_t index, PyObject *object) {
  ec_dtype dtype, expected = (ec_dtype)self->inputs[index].dtype;
  if (!PyArray_CheckExact(object) || !PyArray_ISBEHAVED_RO((PyArrayObject *)object)) return false;
  if (!ecpy_dtype_of(self->state, PyArray_DESCR((PyArrayObject *)object), expected, &dtype))
    return false;
  return dtype == expected || !ecpy_is_extension(expected);
}

static int prepare_input(ecpy_method *self, size_t index, PyObject *object, ecpy_input *input) {
  switch (self->inputs[index].kind) {
  case EC_KIND_TENSOR:
    input->keep = is_plain(self, index, object) ? Py_NewRef(object)
                                                : ecpy_to_array(self, index, object);
    return input->keep ? 0 : -1;
  case EC_KIND_INT:
  case EC_KIND_DOUBLE:
  case EC_KIND_BOOL: return prepare_scalar(self, index, object, &input->scalar);
  case EC_KIND_STRING:
    if (!PyUnicode_Check(object)) break;
    input->keep = Py_NewRef(object);
    return ecpy_utf8(object) ? 0 : -1;
  case EC_KIND_NONE:
    if (object == Py_None) return 0;
    break;
  default:
    ecpy_raise_format(self->state, EC_NOT_SUPPORTED, "method '%s', input %zu: inputs of kind %s",
                      ec_method_name(self->method), index,
                      ec_kind_name((ec_kind)self->inputs[index].kind));
    return -1;
  }
  ecpy_input_error(self, index, "found %.200s", ecpy_type_name(object));
  return -1;
}

int ecpy_inputs_prepare(ecpy_method *self, PyObject *const *items, size_t count,
                        ecpy_input *inputs) {
  for (size_t i = 0; i < self->input_count; i++) inputs[i].keep = NULL;
  if (count != self->input_count) {
    ecpy_input_count_error(self, count);
    return -1;
  }
  for (size_t i = 0; i < count; i++)
    if (prepare_input(self, i, items[i], &inputs[i])) return -1;
  return 0;
}

void ecpy_inputs_release(ecpy_input *inputs, size_t count) {
  for (size_t i = 0; i < count; i++) Py_XDECREF(inputs[i].keep);
}

/* ---- binding ----------------------------------------------------------------------------- */

/* Binds an array. It is checked again, because foreign code and other threads may have changed it
 * since the preparation. */
static ec_status bind_array(ecpy_method *self, size_t index, PyArrayObject *array, ec_error *err) {
  ec_dtype dtype, expected = (ec_dtype)self->inputs[index].dtype;
  if (!PyArray_ISBEHAVED_RO(array) ||
      !ecpy_dtype_of(self->state, PyArray_DESCR(array), expected, &dtype))
    return ec_fail(err, EC_INVALID_ARGUMENT,
                   "method '%s', input %zu: the array was changed while the method was called",
                   ec_method_name(self->method), index);
  ec_array view = {.data = PyArray_DATA(array),
                   .dtype = dtype,
                   .rank = (size_t)PyArray_NDIM(array),
                   .sizes = (const int64_t *)PyArray_DIMS(array),
                   .strides = (const int64_t *)PyArray_STRIDES(array)};
  return ec_method_bind_input(self->method, index, &view, err);
}

_Static_assert(sizeof(npy_intp) == sizeof(int64_t), "shapes of arrays are read as int64_t");

ec_status ecpy_inputs_bind(ecpy_method *self, const ecpy_input *inputs, ec_error *err) {
  for (size_t i = 0; i < self->input_count; i++) {
    switch (self->inputs[i].kind) {
    case EC_KIND_TENSOR: EC_TRY(bind_array(self, i, (PyArrayObject *)inputs[i].keep, err)); break;
    case EC_KIND_STRING:
      EC_TRY(ec_method_bind_string(self->method, i, PyUnicode_AsUTF8(inputs[i].keep), err));
      break;
    case EC_KIND_NONE: EC_TRY(ec_method_bind_none(self->method, i, err)); break;
    default: EC_TRY(ec_method_bind_scalar(self->method, i, inputs[i].scalar, err));
    }
  }
  return EC_OK;
}
