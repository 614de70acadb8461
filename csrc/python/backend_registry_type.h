/* BackendRegistry: the backends that delegated parts of programs can run on. */
#ifndef EC_PYTHON_BACKEND_REGISTRY_TYPE_H
#define EC_PYTHON_BACKEND_REGISTRY_TYPE_H

#include "python/state.h"

extern PyType_Spec ecpy_backend_registry_spec;

#endif
