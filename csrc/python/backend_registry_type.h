/* BackendRegistry: the backends that run delegated parts of programs. */
#ifndef EC_PYTHON_BACKEND_REGISTRY_TYPE_H
#define EC_PYTHON_BACKEND_REGISTRY_TYPE_H

#include "python/state.h"

extern PyType_Spec ecpy_backend_registry_spec;

#endif
