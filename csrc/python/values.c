/* Values of the runtime as Python objects. */
#include "python/state.h"

#include "python/values.h"

#include "python/arrays.h"
#include "python/errors.h"
#include "python/objects.h"

PyObject *ecpy_scalar_object(ec_scalar scalar) {
  switch (scalar.kind) {
  case EC_KIND_INT: return PyLong_FromLongLong(scalar.as.i);
  case EC_KIND_DOUBLE: return PyFloat_FromDouble(scalar.as.d);
  case EC_KIND_BOOL: return PyBool_FromLong(scalar.as.b);
  default: Py_RETURN_NONE;
  }
}

static PyObject *list_item(const ec_value *value, size_t index, ecpy_item_fn fn, void *user) {
  switch (value->kind) {
  case EC_KIND_BOOL_LIST: return PyBool_FromLong(value->as.bools[index]);
  case EC_KIND_DOUBLE_LIST: return PyFloat_FromDouble(value->as.doubles[index]);
  default: return fn(user, value->as.items[index]);
  }
}

PyObject *ecpy_list_object(ecpy_state *state, const ec_value *value, ecpy_item_fn fn, void *user) {
  enum { ITEM = 40 }; /* bytes of an int in a list */
  if (ecpy_charge_results(state, (size_t)value->count * ITEM)) return NULL;
  PyObject *list = PyList_New((Py_ssize_t)value->count);
  for (size_t i = 0; list && i < value->count; i++) {
    PyObject *item = list_item(value, i, fn, user);
    if (item)
      PyList_SET_ITEM(list, (Py_ssize_t)i, item);
    else
      Py_CLEAR(list);
  }
  return list;
}

static PyObject *result_item(void *user, const ec_value *item) {
  return ecpy_value_object(user, item);
}

PyObject *ecpy_value_object(ecpy_state *state, const ec_value *value) {
  switch (value->kind) {
  case EC_KIND_TENSOR: return ecpy_tensor_copy(state, value->as.tensor);
  case EC_KIND_STRING: return ecpy_text(value->as.string);
  case EC_KIND_BOOL_LIST:
  case EC_KIND_DOUBLE_LIST:
  case EC_KIND_INT_LIST:
  case EC_KIND_TENSOR_LIST:
  case EC_KIND_OPTIONAL_TENSOR_LIST: return ecpy_list_object(state, value, result_item, state);
  case EC_KIND_NONE:
  case EC_KIND_INT:
  case EC_KIND_DOUBLE:
  case EC_KIND_BOOL: return ecpy_scalar_object(ec_value_scalar(value));
  default:
    return ecpy_raise_format(state, EC_NOT_SUPPORTED, "outputs of kind %s",
                             ec_kind_name((ec_kind)value->kind));
  }
}

PyObject *ecpy_described_object(const ec_value_info *info) {
  ec_scalar scalar = info->scalar;
  scalar.kind = info->kind;
  return info->kind == EC_KIND_STRING ? ecpy_text(info->string) : ecpy_scalar_object(scalar);
}
