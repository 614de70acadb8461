/* The passes: they turn the instructions of a loaded method into its plan. */
#ifndef EC_RUNTIME_PASSES_PASSES_H
#define EC_RUNTIME_PASSES_PASSES_H

#include "runtime/memory/uses.h"

/* Runs the passes of passes.def that the method's options do not skip. Tensors are placed, and
 * state has its initial value. */
ec_status ec_run_passes(ec_method *m, const ec_uses *uses, ec_arena *work, ec_error *err);

/* True if the method meets the conditions of pass `index`, and its options do not skip it. */
bool ec_pass_applies(const ec_method *m, size_t index);

#endif
