/* Attributes of a method: arrays on its memory, and copies into it.
 *
 * During a call a tensor's data pointer may refer to the caller's arrays. So attributes need the
 * lock; an operator inside a call gets the method's own memory. */
#include "python/state.h"

#include "python/attributes.h"

#include "python/arrays.h"
#include "python/dtype.h"
#include "python/errors.h"
#include "python/method.h"
#include "python/objects.h"

PyObject *ecpy_attribute_names(ecpy_method *self) {
  ec_method *method = self->method;
  size_t count = ec_method_attribute_count(method);
  PyObject *names = PyTuple_New((Py_ssize_t)count);
  for (size_t i = 0; names && i < count; i++) {
    PyObject *name = ecpy_text(ec_method_attribute_name(method, i));
    if (name)
      PyTuple_SET_ITEM(names, (Py_ssize_t)i, name);
    else
      Py_CLEAR(names);
  }
  return names;
}

/* Returns the index of an attribute, or -1 with a NotFoundError that lists the names. */
static Py_ssize_t find_attribute(ecpy_method *self, const char *name) {
  size_t count = ec_method_attribute_count(self->method);
  for (size_t i = 0; i < count; i++)
    if (strcmp(ec_method_attribute_name(self->method, i), name) == 0) return (Py_ssize_t)i;
  PyObject *names = ecpy_attribute_names(self);
  if (names)
    ecpy_raise_format(self->state, EC_NOT_FOUND, "method '%s' has no attribute '%s'; it has %R",
                      ec_method_name(self->method), name, names);
  Py_XDECREF(names);
  return -1;
}

/* Returns an array on an attribute's memory, which keeps the method alive. The method is locked. */
static PyArrayObject *attribute_array(ecpy_method *self, size_t index, bool writable) {
  ec_tensor tensor = ec_method_attribute(self->method, index);
  npy_intp sizes[EC_MAX_RANK], strides[EC_MAX_RANK];
  if (!tensor.data) {
    ecpy_raise_format(self->state, EC_INVALID_STATE, "attribute '%s' has no memory now",
                      ec_method_attribute_name(self->method, index));
    return NULL;
  }
  PyArray_Descr *descr = ecpy_descr(self->state, ec_tensor_dtype(&tensor));
  if (!descr) return NULL;
  ecpy_tensor_layout(&tensor, sizes, strides);
  return ecpy_array_view(descr, tensor.rank, sizes, strides, tensor.data, writable,
                         (PyObject *)self);
}

PyObject *ecpy_attribute_get(ecpy_method *self, const char *name) {
  const Py_ssize_t index = find_attribute(self, name);
  if (index < 0) return NULL;
  const bool mine = ec_method_is_mine(self->method);
  const bool writable = ec_method_attribute_is_mutable(self->method, (size_t)index);
  if (!mine && ecpy_method_lock(self)) return NULL;
  PyArrayObject *array = attribute_array(self, (size_t)index, writable);
  if (!mine) ecpy_method_unlock(self);
  return (PyObject *)array;
}

typedef enum difference { SAME, OTHER_DTYPE, OTHER_SHAPE } difference;

/* Copies an array of the same dtype and shape; -1 with an exception. */
static int copy_if_same(PyArrayObject *target, PyArrayObject *source, difference *actual) {
  *actual = !PyArray_EquivTypes(PyArray_DESCR(source), PyArray_DESCR(target)) ? OTHER_DTYPE
           : !PyArray_SAMESHAPE(source, target)                              ? OTHER_SHAPE
                                                                             : SAME;
  return *actual == SAME ? PyArray_CopyInto(target, source) : 0;
}

static void raise_other_shape(const ecpy_method *self, const char *name, PyArrayObject *target,
                              PyArrayObject *source) {
  PyObject *expected = PyObject_GetAttrString((PyObject *)target, "shape");
  PyObject *actual = PyObject_GetAttrString((PyObject *)source, "shape");
  if (expected && actual)
    ecpy_raise_format(self->state, EC_INVALID_ARGUMENT,
                      "attribute '%s': found shape %S, expected %S", name, actual, expected);
  Py_XDECREF(expected);
  Py_XDECREF(actual);
}

static int copy_into(ecpy_method *self, size_t index, PyArrayObject *source) {
  difference actual = SAME;
  if (ecpy_method_lock(self)) return -1;
  PyArrayObject *target = attribute_array(self, index, true);
  int rc = target ? copy_if_same(target, source, &actual) : -1;
  ecpy_method_unlock(self);
  const char *name = ec_method_attribute_name(self->method, index);
  if (actual == OTHER_DTYPE)
    ecpy_raise_format(self->state, EC_INVALID_ARGUMENT,
                      "attribute '%s': found dtype %S, expected %S", name, PyArray_DESCR(source),
                      PyArray_DESCR(target));
  if (actual == OTHER_SHAPE)
    raise_other_shape(self, name, target, source);
  Py_XDECREF((PyObject *)target);
  return actual == SAME ? rc : -1;
}

int ecpy_attribute_set(ecpy_method *self, const char *name, PyObject *source) {
  const Py_ssize_t index = find_attribute(self, name);
  if (index < 0) return -1;
  if (!ec_method_attribute_is_mutable(self->method, (size_t)index)) {
    ecpy_raise_format(self->state, EC_INVALID_STATE, "attribute '%s' is a constant", name);
    return -1;
  }
  PyObject *array = PyArray_FromAny(source, NULL, 0, 0, 0, NULL); /* runs foreign code */
  const int rc = array ? copy_into(self, (size_t)index, (PyArrayObject *)array) : -1;
  Py_XDECREF(array);
  return rc;
}
