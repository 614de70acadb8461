/* Runtime: the singleton that loads programs. */
#ifndef EC_PYTHON_RUNTIME_TYPE_H
#define EC_PYTHON_RUNTIME_TYPE_H

#include "python/state.h"

extern PyType_Spec ecpy_runtime_spec;

#endif
