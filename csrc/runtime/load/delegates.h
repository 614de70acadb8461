/* Delegates of a method. */
#ifndef EC_RUNTIME_LOAD_DELEGATES_H
#define EC_RUNTIME_LOAD_DELEGATES_H

#include "runtime/native.h"

/* Finds the backends of all delegates, before any prepares its payload. */
ec_status ec_find_delegates(ec_method *m, const ec_rows *rows, ec_error *err);
/* Initialises the delegates: each backend receives its payload. */
ec_status ec_init_delegates(ec_method *m, ec_error *err);

#endif
