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
  uint32_t found = 0;
  for (size_t i = 0; i < in->op->nargs; i++)
    if (in->args[i]->kind == EC_KIND_TENSOR && !in->op->args[i].written &&
        ec_is_constant_tensor(m, in->args[i]->as.tensor))
      found |= UINT32_C(1) << i;
  return found;
}

static void release_pages(void *user, const void *data, size_t size) {
  const ec_method *m = user;
  ec_program_release_pages(m->program, data, size);
}

ec_status ec_prepare_products(ec_method *m, ec_error *err) {
  m->kept = (ec_kept_memory){0, ec_constant_room(m), release_pages, m};
  m->pages = (ec_pages){.release = release_pages, .user = m};
  if (m->options.reference_kernels) return EC_OK;
  for (size_t i = 0; i < m->instr_count; i++) {
    ec_instr *in = &m->instrs[i];
    const uint32_t constants = is_product(in) ? list_constants(m, in) : 0;
    if (!constants) continue;
    EC_TRY(ec_arena_array(&m->arena, 1, sizeof *in->kept, "an instruction", &in->kept, err));
    *in->kept = (ec_kept){.memory = &m->kept, .constants = constants};
  }
  return EC_OK;
}

void ec_free_products(ec_method *m) {
  for (size_t i = 0; i < m->instr_count; i++)
    if (m->instrs[i].kept) ec_kept_deinit(m->instrs[i].kept);
}
