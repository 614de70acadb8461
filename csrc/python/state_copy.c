/* Copies of a method's state, as arrays of bytes. */
#include "python/state.h"

#include "python/state_copy.h"

#include "python/errors.h"
#include "runtime/memory/saved_state.h"

PyObject *ecpy_state_get(ecpy_method *self) {
  ec_error err = {0};
  const size_t size = ec_state_size(self->method);
  npy_intp count = (npy_intp)size;
  PyObject *copy = PyArray_SimpleNew(1, &count, NPY_UINT8);
  if (!copy) return NULL;
  if (ecpy_method_lock(self)) {
    Py_DECREF(copy);
    return NULL;
  }
  const ec_status status =
      ec_state_save(self->method, PyArray_DATA((PyArrayObject *)copy), size, &err);
  ecpy_method_unlock(self);
  if (status == EC_OK) return copy;
  Py_DECREF(copy);
  return ecpy_raise(self->state, &err);
}

/* Restores the state from bytes of a buffer; -1 with an exception. */
static int restore(ecpy_method *self, const Py_buffer *buffer) {
  ec_error err = {0};
  if (ecpy_method_lock(self)) return -1;
  const ec_status status =
      ec_state_restore(self->method, buffer->buf, (size_t)buffer->len, &err);
  ecpy_method_unlock(self);
  if (status != EC_OK) ecpy_raise(self->state, &err);
  return status == EC_OK ? 0 : -1;
}

int ecpy_state_set(ecpy_method *self, PyObject *source) {
  Py_buffer buffer;
  if (PyObject_GetBuffer(source, &buffer, PyBUF_SIMPLE)) return -1; /* runs foreign code */
  const int rc = restore(self, &buffer);
  PyBuffer_Release(&buffer);
  return rc;
}
