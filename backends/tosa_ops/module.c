/* The extension module executorch_c._backend_tosa_ops, which exports the operators. */
#include <Python.h>

#include "executorch_c/module.h"
#include "operators.h"

EC_OPERATOR_MODULE(_backend_tosa_ops, "Operators of TOSA that ATen lacks.", &eto_operators)
