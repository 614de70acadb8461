/* Constant folding: kernel calls whose arguments are all constant run once, when a method is
 * loaded. */
#ifndef EC_RUNTIME_PASSES_FOLD_H
#define EC_RUNTIME_PASSES_FOLD_H

#include "runtime/passes/pass.h"

/* Runs the calls whose arguments are constant, each into memory outside of the planned arenas,
 * while the memory limit allows it. A call that fails stays, and fails when it is executed. */
ec_status ec_fold_constants(ec_pass_context *p, ec_error *err);

/* True if a kernel call was folded. */
static inline bool ec_is_folded(const ec_method *m, const ec_instr *in) {
  return ec_plan_is(m, (size_t)(in - m->instrs), EC_PASS_fold);
}

/* True for a tensor whose elements never change after the load. */
bool ec_is_constant_tensor(const ec_method *m, const ec_tensor *t);

/* Returns the bytes that folded constants of a method may have, and its packed weights. */
size_t ec_constant_room(const ec_method *m);

#endif
