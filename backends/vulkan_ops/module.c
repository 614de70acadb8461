/* The extension module executorch_c._backend_vulkan_ops, which exports the operators. */
#include <Python.h>

#include "executorch_c/module.h"
#include "operators.h"

EC_OPERATOR_MODULE(_backend_vulkan_ops, "Operators of payloads of the Vulkan delegate.",
                   &evo_operators)
