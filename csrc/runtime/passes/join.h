/* Which calls may run block by block (kernels/pointwise/joined.h). */
#ifndef EC_RUNTIME_PASSES_JOIN_H
#define EC_RUNTIME_PASSES_JOIN_H

#include "runtime/memory/uses.h"

/* Finds the runs of calls, after all tensors have been placed. */
ec_status ec_join_calls(ec_method *m, const ec_uses *uses, ec_error *err);

#endif
