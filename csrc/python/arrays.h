/* NumPy arrays for tensors: strides in bytes, new arrays, views, copies. */
#ifndef EC_PYTHON_ARRAYS_H
#define EC_PYTHON_ARRAYS_H

#include "core/tensor.h"
#include "python/state.h"

/* Strides in bytes of strides in elements: the one place where they are made. False where one
 * leaves int64, which no tensor of a program does. */
bool ecpy_byte_strides(size_t rank, const int64_t *strides, size_t itemsize, npy_intp *out);

/* Sizes, and strides in bytes, of a tensor. */
void ecpy_tensor_layout(const ec_tensor *tensor, npy_intp *sizes, npy_intp *strides);

/* A new array for a tensor of this shape and order. */
PyArrayObject *ecpy_new_array(PyArray_Descr *descr, size_t rank, const npy_intp *sizes,
                              const npy_intp *strides, bool row_major);

/* A new array of a tensor's dtype, shape and order, without its data. */
PyArrayObject *ecpy_array_like(ecpy_state *state, const ec_tensor *tensor);

/* An array on memory of somebody else. `base` keeps it alive and gets one more reference; NULL: the
 * caller sees to that. */
PyArrayObject *ecpy_array_view(PyArray_Descr *descr, size_t rank, const npy_intp *sizes,
                               const npy_intp *strides, void *data, bool writable,
                               PyObject *base);

/* An array on a tensor's own memory, whose base the caller sees to. */
PyArrayObject *ecpy_tensor_view(ecpy_state *state, const ec_tensor *tensor);

/* A new array that owns a copy of a tensor's data. */
PyObject *ecpy_tensor_copy(ecpy_state *state, const ec_tensor *tensor);

/* Charges the budget of the present call for results. -1 with MemoryAllocationFailedError. */
int ecpy_charge_results(ecpy_state *state, size_t bytes);

/* True where the bytes that two arrays span overlap. */
bool ecpy_overlaps(PyArrayObject *array, PyArrayObject *other);

#endif
