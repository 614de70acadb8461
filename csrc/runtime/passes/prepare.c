/* Packed weights.
 *
 * A matrix product packs both of its sides into panels (kernels/linalg/gemm.h). A weight is packed
 * in the first call that needs it, all at once, and kept: later calls read the panels. The pages of
 * the file that held it are given back. */
#include "runtime/passes/prepare.h"

#include "kernels/linalg/kept.h"
#include "runtime/passes/fold.h"
#include "runtime/program_internal.h"

static bool is_product(const ec_instr *in) { return in->op && in->op->work == EC_OP_PRODUCT; }

/* Returns the tensor arguments that never change: bit i for argument i. */
static uint32_t list_constants(const ec_method *m, const ec_instr *in) {
  uint32_t sides = 0;
  for (size_t i = 0; i < in->op->nargs; i++)
    if (in->args[i]->kind == EC_KIND_TENSOR && !in->op->args[i].written &&
        ec_is_constant_tensor(m, in->args[i]->as.tensor))
      sides |= UINT32_C(1) << i;
  return sides;
}

ec_status ec_prepare_products(ec_pass_context *p, ec_error *err) {
  ec_method *m = p->m;
  m->kept = (ec_kept_memory){0, ec_constant_room(m), m->pages.release, m};
  for (size_t i = 0; i < m->instr_count; i++) {
    const ec_instr *in = &m->instrs[i];
    const uint32_t constants = is_product(in) ? list_constants(m, in) : 0;
    ec_kept **kept = &m->plan.instrs[i].kept;
    if (!constants) continue;
    EC_TRY(ec_arena_array(&m->arena, 1, sizeof **kept, "packed weights", kept, err));
    **kept = (ec_kept){.memory = &m->kept, .constants = constants};
    m->plan.changed[EC_PASS_prepare]++;
  }
  return EC_OK;
}

void ec_free_products(ec_method *m) {
  for (size_t i = 0; m->plan.instrs && i < m->instr_count; i++)
    if (m->plan.instrs[i].kept) ec_kept_deinit(m->plan.instrs[i].kept);
}
