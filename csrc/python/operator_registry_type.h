/* OperatorRegistry: the operators with kernels in this runtime. */
#ifndef EC_PYTHON_OPERATOR_REGISTRY_TYPE_H
#define EC_PYTHON_OPERATOR_REGISTRY_TYPE_H

#include "python/state.h"

extern PyType_Spec ecpy_operator_registry_spec;

#endif
