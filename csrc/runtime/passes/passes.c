/* Runs the passes whose conditions a method meets. */
#include "runtime/passes/passes.h"

#include "core/small.h"
#include "runtime/passes/attend.h"
#include "runtime/passes/delegate.h"
#include "runtime/passes/fold.h"
#include "runtime/passes/fuse.h"
#include "runtime/passes/join.h"
#include "runtime/passes/merge.h"
#include "runtime/passes/prepare.h"
#include "runtime/passes/record.h"

/* Conditions of a pass on a method. */
enum {
  NO_JUMPS = 1,   /* each instruction is executed once in a call */
  ONE_CHAIN = 2,
  OPTIMISED = 4,  /* not kernels="reference" */
  COMPARABLE = 8  /* comparing all tensors with each other takes little time */
};

typedef ec_status (*pass_fn)(ec_pass_context *p, ec_error *err);

typedef struct row {
  const char *name;
  unsigned conditions;
  pass_fn before, after;
  const char *purpose;
} row;

static const row rows[] = {
#define EC_PASS(name, conditions, before, after, purpose) \
  {#name, conditions, before, after, purpose},
#include "runtime/passes/passes.def"
#undef EC_PASS
};

enum { COUNT = sizeof rows / sizeof rows[0] };

const char *ec_pass_name(size_t index, const char **purpose) {
  if (EC_IS_SMALL || index >= COUNT) return NULL;
  *purpose = rows[index].purpose;
  return rows[index].name;
}

/* Returns the conditions that a method meets. */
static unsigned find_conditions(const ec_method *m) {
  return (m->has_jumps ? 0u : NO_JUMPS) | (m->chain_count == 1 ? ONE_CHAIN : 0u) |
         (m->options.reference_kernels ? 0u : OPTIMISED) |
         (ec_can_compare(m->tensor_count, m->tensor_count) ? COMPARABLE : 0u);
}

bool ec_pass_applies(const ec_method *m, size_t index) {
  return !(rows[index].conditions & ~find_conditions(m)) &&
         !(m->options.skipped_passes >> index & 1);
}

static ec_status run_rows(ec_pass_context *p, bool is_after, ec_error *err) {
  for (size_t i = 0; i < COUNT; i++) {
    const pass_fn fn = is_after ? rows[i].after : rows[i].before;
    if (fn && ec_pass_applies(p->m, i)) EC_TRY(fn(p, err));
  }
  return EC_OK;
}

ec_status ec_run_passes(ec_method *m, const ec_uses *uses, ec_arena *work, ec_error *err) {
  ec_pass_context p = {.m = m, .uses = uses, .work = work};
  if (EC_IS_SMALL) return EC_OK;
  EC_TRY(run_rows(&p, false, err));
  return run_rows(&p, true, err);
}
