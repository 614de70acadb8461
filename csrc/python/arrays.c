/* NumPy arrays for tensors. */
#include "python/state.h"

#include "python/arrays.h"

#include "core/budget.h"
#include "python/dtype.h"
#include "python/errors.h"

bool ecpy_byte_strides(size_t rank, const int64_t *strides, size_t itemsize, npy_intp *out) {
  for (size_t d = 0; d < rank; d++) {
    int64_t bytes;
    if (__builtin_mul_overflow(strides[d], (int64_t)itemsize, &bytes)) return false;
    out[d] = (npy_intp)bytes;
  }
  return true;
}

void ecpy_tensor_layout(const ec_tensor *tensor, npy_intp *sizes, npy_intp *strides) {
  for (size_t d = 0; d < tensor->rank; d++) sizes[d] = (npy_intp)tensor->sizes[d];
  ecpy_byte_strides(tensor->rank, tensor->strides, ec_dtype_size(ec_tensor_dtype(tensor)),
                    strides);
}

PyArrayObject *ecpy_new_array(PyArray_Descr *descr, size_t rank, const npy_intp *sizes,
                              const npy_intp *strides, bool row_major) {
  Py_INCREF((PyObject *)descr);
  return (PyArrayObject *)PyArray_NewFromDescr(&PyArray_Type, descr, (int)rank, sizes,
                                               row_major ? NULL : strides, NULL, 0, NULL);
}

PyArrayObject *ecpy_array_like(ecpy_state *state, const ec_tensor *tensor) {
  npy_intp sizes[EC_MAX_RANK], strides[EC_MAX_RANK];
  PyArray_Descr *descr = ecpy_descr(state, ec_tensor_dtype(tensor));
  if (!descr) return NULL;
  ecpy_tensor_layout(tensor, sizes, strides);
  return ecpy_new_array(descr, tensor->rank, sizes, strides, ec_tensor_is_contiguous(tensor));
}

PyArrayObject *ecpy_array_view(PyArray_Descr *descr, size_t rank, const npy_intp *sizes,
                               const npy_intp *strides, void *data, bool writable,
                               PyObject *base) {
  Py_INCREF((PyObject *)descr);
  PyObject *array = PyArray_NewFromDescr(&PyArray_Type, descr, (int)rank, sizes, strides, data,
                                         writable ? NPY_ARRAY_WRITEABLE : 0, NULL);
  if (array && base && PyArray_SetBaseObject((PyArrayObject *)array, Py_NewRef(base)))
    Py_CLEAR(array);
  return (PyArrayObject *)array;
}

PyArrayObject *ecpy_tensor_view(ecpy_state *state, const ec_tensor *tensor) {
  npy_intp sizes[EC_MAX_RANK], strides[EC_MAX_RANK];
  PyArray_Descr *descr = ecpy_descr(state, ec_tensor_dtype(tensor));
  if (!descr) return NULL;
  ecpy_tensor_layout(tensor, sizes, strides);
  return ecpy_array_view(descr, tensor->rank, sizes, strides, tensor->data, true, NULL);
}

int ecpy_charge_results(ecpy_state *state, size_t bytes) {
  if (ec_budget_charge(bytes)) return 0;
  ecpy_raise_format(state, EC_MEMORY_ALLOCATION_FAILED,
                    "%zu bytes for results exceed the call's limit of %llu (max_bytes=)",
                    bytes, (unsigned long long)ec_budget_now()->max_bytes);
  return -1;
}

PyObject *ecpy_tensor_copy(ecpy_state *state, const ec_tensor *tensor) {
  if (!ecpy_descr(state, ec_tensor_dtype(tensor))) return NULL;
  if (!tensor->data && tensor->numel)
    return ecpy_raise_format(state, EC_INVALID_STATE, "a tensor has no data");
  if (ecpy_charge_results(state, ec_tensor_nbytes(tensor))) return NULL;
  PyArrayObject *array = ecpy_array_like(state, tensor);
  if (array && tensor->numel) memcpy(PyArray_DATA(array), tensor->data, ec_tensor_nbytes(tensor));
  return (PyObject *)array;
}

/* Returns the bytes that an array spans: [low, high). */
static void array_extent(PyArrayObject *array, uintptr_t *low, uintptr_t *high) {
  *low = *high = (uintptr_t)PyArray_DATA(array);
  if (PyArray_SIZE(array) == 0) return;
  for (int i = 0; i < PyArray_NDIM(array); i++) {
    npy_intp span = PyArray_STRIDE(array, i) * (PyArray_DIM(array, i) - 1);
    if (span < 0)
      *low -= (uintptr_t)-span;
    else
      *high += (uintptr_t)span;
  }
  *high += (uintptr_t)PyArray_ITEMSIZE(array);
}

bool ecpy_overlaps(PyArrayObject *array, PyArrayObject *other) {
  uintptr_t low, high, other_low, other_high;
  array_extent(array, &low, &high);
  array_extent(other, &other_low, &other_high);
  return low < other_high && other_low < high;
}
