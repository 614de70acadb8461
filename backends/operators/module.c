/* The extension module executorch_c._backend_operators: exports the libraries as capsules. */
#include <Python.h>

#include "executorch_c/module.h"
#include "libraries.h"

EC_OPERATORS_MODULE(_backend_operators,
                    "Operators of ExecuTorch's Cadence and Cortex-M flows, and of payloads of the "
                    "MLX, TOSA and Vulkan delegates.",
                    &cadence_operators, &cortex_m_operators, &emo_operators, &eto_operators,
                    &evo_operators)
