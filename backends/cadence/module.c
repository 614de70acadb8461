/* The extension module executorch_c._backend_cadence, which exports the operators as a capsule. */
#include <Python.h>

#include "executorch_c/module.h"
#include "operators.h"

EC_OPERATOR_MODULE(_backend_cadence, "Operators cadence::* of ExecuTorch's Cadence flow.",
                   &cadence_operators)
