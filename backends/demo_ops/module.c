/* The extension module executorch_c._backend_demo_ops, which exports the operators as a capsule. */
#include <Python.h>

#include "executorch_c/module.h"
#include "operators.h"

EC_OPERATOR_MODULE(_backend_demo_ops, "Operators demo::scale.out and demo::positive.out.",
                   &demo_operators)
