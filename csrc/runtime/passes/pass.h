/* The state that the passes over a method share. */
#ifndef EC_RUNTIME_PASSES_PASS_H
#define EC_RUNTIME_PASSES_PASS_H

#include "runtime/memory/uses.h"
#include "runtime/plan.h"

/* An attention that runs unless a backend takes calls of its chain. */
typedef struct ec_pending_attention {
  struct ec_pending_attention *next;
  ec_step step;
} ec_pending_attention;

typedef struct ec_pass_context {
  ec_method *m;
  const ec_uses *uses; /* with elided views, if the method is COMPARABLE */
  ec_arena *work;      /* memory until all passes have run */
  size_t *merged;      /* by instruction: 1 + the offset in the method's `merged` of a copy whose
                          operand and result can share memory; 0: none. NULL: none */
  ec_pending_attention *attentions;
} ec_pass_context;

#endif
