/* A native value as backends and plug-in operators see it. */
#ifndef EC_RUNTIME_ARG_H
#define EC_RUNTIME_ARG_H

#include "core/value.h"
#include "executorch_c/backend.h"

/* Fills in the view of a value. A list becomes None. */
void ec_arg_view(ec_value *value, ec_backend_arg *view);

#endif
