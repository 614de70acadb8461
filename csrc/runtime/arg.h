/* A native value as backends and plug-in operators see it. */
#ifndef EC_RUNTIME_ARG_H
#define EC_RUNTIME_ARG_H

#include "core/arena.h"
#include "core/value.h"
#include "executorch_c/backend.h"
#include "kernels/op.h"

/* Fills in the view of a value. A list becomes None. */
void ec_arg_view(ec_value *value, ec_backend_arg *view);

/* Fills in the view of an operator's argument. Numbers get the schema's kind: a slot may hold an
 * Int for a float. Items of lists are in `scratch`. */
ec_status ec_arg_view_as(const ec_arg_spec *spec, ec_value *value, ec_arena *scratch,
                         ec_backend_arg *view, ec_error *err);

#endif
