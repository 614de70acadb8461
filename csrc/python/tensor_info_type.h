/* TensorInfo: dtype, shape and layout of a method's tensor. */
#ifndef EC_PYTHON_TENSOR_INFO_TYPE_H
#define EC_PYTHON_TENSOR_INFO_TYPE_H

#include "python/state.h"
#include "runtime/describe.h"

extern PyType_Spec ecpy_tensor_info_spec;

/* Returns a TensorInfo of a description owned by `meta`. */
PyObject *ecpy_tensor_info_new(ecpy_state *state, PyObject *meta, const ec_tensor_info *info);

/* Returns "TensorInfo(sizes=[2, 2], dtype=Float, is_memory_planned=True, nbytes=16)". */
PyObject *ecpy_tensor_info_text(const ec_tensor_info *info);

#endif
