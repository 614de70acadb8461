/* Packed weights.
 *
 * A matrix product packs both of its sides into panels (kernels/linalg/gemm.h). A weight is packed
 * in the first call that needs it, all at once, and kept: later calls read the panels. The pages of
 * the file that held it are given back. */
#include "runtime/passes/prepare.h"

#include "kernels/linalg/kept.h"
#include "runtime/passes/fold.h"
#include "runtime/passes/turn.h"
#include "runtime/program_internal.h"

static bool is_product(const ec_instr *in) { return in->op && in->op->work == EC_OP_PRODUCT; }

/* Returns the tensor arguments that never change: bit i for argument i. Those that a traced call
 * transposes have other memory there (`turned`). */
static uint32_t list_constants(const ec_method *m, const ec_instr *in, bool turned) {
  uint32_t sides = 0;
  for (size_t i = 0; i < in->op->nargs; i++)
    if (in->args[i]->kind == EC_KIND_TENSOR && !in->op->args[i].written &&
        ec_is_constant_tensor(m, in->args[i]->as.tensor) &&
        (turned || ec_turned(m, in->args[i]) == in->args[i]))
      sides |= UINT32_C(1) << i;
  return sides;
}

/* Returns the call of a product that reads a turned weight; NULL: none. */
static ec_step *find_turned(const ec_method *m, size_t at) {
  ec_step *step = m->plan.steps[at];
  while (step && !(step->kind == EC_STEP_KernelCall && step->pass == EC_PASS_fold))
    step = step->fallback;
  return step;
}

static ec_status keep_sides(ec_method *m, ec_step *step, uint32_t constants, ec_error *err) {
  if (!constants) return EC_OK;
  EC_TRY(ec_arena_array(&m->arena, 1, sizeof *step->kept, "packed weights", &step->kept, err));
  *step->kept = (ec_kept){.memory = &m->kept, .constants = constants};
  return EC_OK;
}

ec_status ec_prepare_products(ec_pass_context *p, ec_error *err) {
  ec_method *m = p->m;
  m->kept = (ec_kept_memory){0, ec_constant_room(m), m->pages.release, m};
  for (size_t i = 0; i < m->instr_count; i++) {
    const ec_instr *in = &m->instrs[i];
    if (!is_product(in)) continue;
    ec_step *turned = find_turned(m, i);
    EC_TRY(keep_sides(m, &m->plan.instrs[i], list_constants(m, in, false), err));
    if (turned) EC_TRY(keep_sides(m, turned, list_constants(m, in, true), err));
    m->plan.changed[EC_PASS_prepare] += m->plan.instrs[i].kept || turned;
  }
  return EC_OK;
}

static void free_sides(const ec_step *step) {
  if (step && step->kept) ec_kept_deinit(step->kept);
}

void ec_free_products(ec_method *m) {
  for (size_t i = 0; m->plan.instrs && i < m->instr_count; i++) {
    free_sides(&m->plan.instrs[i]);
    free_sides(find_turned(m, i));
  }
}
