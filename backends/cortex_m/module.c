/* The extension module executorch_c._backend_cortex_m, which exports the operators as a capsule. */
#include <Python.h>

#include "executorch_c/module.h"
#include "operators.h"

EC_OPERATOR_MODULE(_backend_cortex_m, "Operators cortex_m::* of ExecuTorch's Cortex-M flow.",
                   &cortex_m_operators)
