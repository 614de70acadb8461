/* Runs of kernel calls that one call computes: safe softmax. */
#ifndef EC_RUNTIME_PASSES_FUSE_H
#define EC_RUNTIME_PASSES_FUSE_H

#include "runtime/passes/pass.h"

/* Finds the runs, and replaces each by one call. */
ec_status ec_fuse_calls(ec_pass_context *p, ec_error *err);

#endif
