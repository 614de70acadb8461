/* Plug-in operators: include/executorch_c/operator.h on top of the registry of kernels/. */
#ifndef EC_RUNTIME_OPERATOR_H
#define EC_RUNTIME_OPERATOR_H

#include "core/error.h"
#include "executorch_c/operator.h"

/* Registers all operators of a table, which must outlive the process, or none. Rows that are
 * already registered are skipped. Errors: InvalidArgument (another ABI, a wrong schema),
 * RegistrationExists. */
ec_status ec_operators_register(const ec_operators *operators, ec_error *err);

#endif
