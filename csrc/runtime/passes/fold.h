/* Constant folding: kernel calls whose arguments are all constant run once, when a method is
 * loaded. */
#ifndef EC_RUNTIME_PASSES_FOLD_H
#define EC_RUNTIME_PASSES_FOLD_H

#include "runtime/memory/uses.h"

/* Marks the kernel calls to fold and their outputs, after all tensors have been placed. */
ec_status ec_mark_foldable(ec_method *m, const ec_uses *uses, ec_error *err);

/* Runs the marked calls, each into memory outside of the planned arenas, while the memory limit
 * allows it. A call that fails stays as it is, so that it fails when it is executed. */
ec_status ec_fold_constants(ec_method *m, ec_error *err);

/* True for a tensor whose elements never change after the load. */
bool ec_is_constant_tensor(const ec_method *m, const ec_tensor *t);

/* Returns the bytes that folded constants of a method may have, and its packed weights. */
size_t ec_constant_room(const ec_method *m);

#endif
