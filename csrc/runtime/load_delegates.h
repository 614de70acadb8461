/* Delegates of a method. */
#ifndef EC_RUNTIME_LOAD_DELEGATES_H
#define EC_RUNTIME_LOAD_DELEGATES_H

#include "runtime/native.h"

/* Creates the delegates: each backend receives its payload. */
ec_status ec_load_delegates(ec_method *m, const ec_plan *plan, ec_error *err);

#endif
