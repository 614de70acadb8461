/* NumPy arrays for tensors: strides in bytes, new arrays, views, copies. */
#ifndef EC_PYTHON_ARRAYS_H
#define EC_PYTHON_ARRAYS_H

#include "core/tensor.h"
#include "python/state.h"

/* Converts strides in elements to strides in bytes. Returns false on overflow of int64, which no
 * program's tensor causes. */
bool ecpy_byte_strides(size_t rank, const int64_t *strides, size_t itemsize, npy_intp *out);

/* Returns sizes, and strides in bytes, of a tensor. */
void ecpy_tensor_layout(const ec_tensor *tensor, npy_intp *sizes, npy_intp *strides);

/* Returns a new array for a tensor with this shape and order. */
PyArrayObject *ecpy_new_array(PyArray_Descr *descr, size_t rank, const npy_intp *sizes,
                              const npy_intp *strides, bool row_major);

/* Returns a new array with a tensor's dtype, shape and order, without its data. */
PyArrayObject *ecpy_array_like(ecpy_state *state, const ec_tensor *tensor);

/* Returns an array on external memory. `base` keeps the memory alive and gains a reference. If it
 * is NULL, the caller keeps the memory alive. */
PyArrayObject *ecpy_array_view(PyArray_Descr *descr, size_t rank, const npy_intp *sizes,
                               const npy_intp *strides, void *data, bool writable,
                               PyObject *base);

/* Returns an array on a tensor's own memory. The caller sets its base. */
PyArrayObject *ecpy_tensor_view(ecpy_state *state, const ec_tensor *tensor);

/* Returns a new array with a copy of a tensor's data. */
PyObject *ecpy_tensor_copy(ecpy_state *state, const ec_tensor *tensor);

/* Charges the budget of the current call for results. Returns -1 with
 * MemoryAllocationFailedError. */
int ecpy_charge_results(ecpy_state *state, size_t bytes);

/* True if the bytes spanned by two arrays overlap. */
bool ecpy_overlaps(PyArrayObject *array, PyArrayObject *other);

#endif
