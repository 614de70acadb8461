/* Copies of the same bytes, whose operand and result share memory. */
#ifndef EC_RUNTIME_PASSES_MERGE_H
#define EC_RUNTIME_PASSES_MERGE_H

#include "runtime/memory/uses.h"

/* Finds the copies, after ec_mark_foldable, and the memory that they need beside the plan. */
ec_status ec_find_merges(ec_method *m, const ec_uses *uses, ec_error *err);

/* Gives operands and results one address, after the claims, unless a backend claims the copy. */
ec_status ec_merge_copies(ec_method *m, ec_error *err);

#endif
