/* Operators and instructions of a method. */
#ifndef EC_RUNTIME_LOAD_CODE_H
#define EC_RUNTIME_LOAD_CODE_H

#include "runtime/native.h"

/* Acquires the available operators. ec_load_chains fails if one is missing. */
ec_status ec_load_operators(ec_method *m, const ec_rows *rows, ec_error *err);

/* Loads the instructions. Values, inputs and delegates must be loaded. */
ec_status ec_load_chains(ec_method *m, const ec_rows *rows, ec_error *err);

#endif
