/* Which calls may run block by block (kernels/pointwise/joined.h). */
#ifndef EC_RUNTIME_PASSES_JOIN_H
#define EC_RUNTIME_PASSES_JOIN_H

#include "runtime/passes/pass.h"

/* Finds the runs of calls that no other pass computes. */
ec_status ec_join_calls(ec_pass_context *p, ec_error *err);

#endif
