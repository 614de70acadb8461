/* Runs of kernel calls that one call computes: safe softmax. */
#ifndef EC_RUNTIME_PASSES_FUSE_H
#define EC_RUNTIME_PASSES_FUSE_H

#include "runtime/memory/uses.h"

/* Finds the runs, after all tensors have been placed. */
ec_status ec_fuse_calls(ec_method *m, const ec_uses *uses, ec_error *err);

#endif
