/* OperatorRegistry: the operators that this runtime has kernels for. */
#ifndef EC_PYTHON_OPERATOR_REGISTRY_TYPE_H
#define EC_PYTHON_OPERATOR_REGISTRY_TYPE_H

#include "python/state.h"

extern PyType_Spec ecpy_operator_registry_spec;

#endif
