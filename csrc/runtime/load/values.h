/* The values of a method, and its inputs and outputs. */
#ifndef EC_RUNTIME_LOAD_VALUES_H
#define EC_RUNTIME_LOAD_VALUES_H

#include "runtime/native.h"

ec_status ec_load_values(ec_method *m, const ec_rows *rows, ec_error *err);
ec_status ec_load_io(ec_method *m, const ec_rows *rows, ec_error *err);

#endif
