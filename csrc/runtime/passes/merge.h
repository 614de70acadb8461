/* Copies of the same bytes, whose operand and result share memory. */
#ifndef EC_RUNTIME_PASSES_MERGE_H
#define EC_RUNTIME_PASSES_MERGE_H

#include "runtime/passes/pass.h"

/* Finds the copies, and the memory that they need beside the planned one. */
ec_status ec_find_merges(ec_pass_context *p, ec_error *err);

/* Gives operands and results one address, unless a backend has the copy. */
ec_status ec_merge_copies(ec_pass_context *p, ec_error *err);

#endif
