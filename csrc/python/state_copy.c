/* Copies of a method's state, as arrays of bytes. */
#include "python/state.h"

#include "python/state_copy.h"

#include "python/errors.h"
#include "runtime/memory/saved_state.h"

PyObject *ecpy_state_get(ecpy_method *self) {
  npy_intp size = (npy_intp)ec_state_size(self->method);
  PyObject *copy = PyArray_SimpleNew(1, &size, NPY_UINT8);
  if (!copy) return NULL;
  if (ecpy_method_lock(self)) {
    Py_DECREF(copy);
    return NULL;
  }
  ec_state_save(self->method, PyArray_DATA((PyArrayObject *)copy));
  ecpy_method_unlock(self);
  return copy;
}

/* Restores the state from bytes of a buffer; -1 with an exception. */
static int restore(ecpy_method *self, const Py_buffer *buffer) {
  const size_t size = ec_state_size(self->method);
  if (buffer->len < 0 || (size_t)buffer->len != size) {
    ecpy_raise_format(self->state, EC_INVALID_ARGUMENT,
                      "the state of method '%s' has %zu bytes, found %zd",
                      ec_method_name(self->method), size, buffer->len);
    return -1;
  }
  if (ecpy_method_lock(self)) return -1;
  ec_state_restore(self->method, buffer->buf);
  ecpy_method_unlock(self);
  return 0;
}

int ecpy_state_set(ecpy_method *self, PyObject *source) {
  Py_buffer buffer;
  if (PyObject_GetBuffer(source, &buffer, PyBUF_SIMPLE)) return -1; /* runs foreign code */
  const int rc = restore(self, &buffer);
  PyBuffer_Release(&buffer);
  return rc;
}
