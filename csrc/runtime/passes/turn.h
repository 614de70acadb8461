/* Transposed weights: products read a large constant where it is. */
#ifndef EC_RUNTIME_PASSES_TURN_H
#define EC_RUNTIME_PASSES_TURN_H

#include "runtime/passes/pass.h"

/* Makes products read the operand of a transposition, call `at`, in place of its result. Sets
 * `*done` false if anything else reads the result, or a copy is faster. */
ec_status ec_turn_constant(const ec_uses *uses, size_t at, bool *done, ec_error *err);

/* Returns the constant that an argument stands for: its elements in their own order of dimensions,
 * or the argument itself. */
static inline ec_value *ec_turned(const ec_method *m, ec_value *v) {
  ec_value *turned = v->kind == EC_KIND_TENSOR ? ec_placement_of(m, v->as.tensor)->turned : NULL;
  return turned ? turned : v;
}

#endif
