/* Planned memory that methods of one program share: mutable buffers (a KV cache that prefill fills
 * and decode reads) of programs exported with MemoryPlanningPass(share_mutable_buffers=True), which
 * plans them at memory id 2 in every method. Nothing in the file marks them as shared. */
#include <string.h>

#include "core/alloc.h"
#include "runtime/impl.h"

static bool any_item_planned_in(ec_fb_vec values, ec_fb_table list, uint32_t id) {
  ec_fb_vec items = ec_fb_vector(ec_fb_child(list, EC_PTE_EValue_val), EC_PTE_TensorList_items);
  for (uint32_t i = 0; i < items.count; i++) {
    int32_t at = ec_fb_vec_i32(items, i);
    if (at < 0 || (uint32_t)at >= values.count) continue;
    if (ec_allocation_in(ec_fb_vec_table(values, (uint32_t)at), id)) return true;
  }
  return false;
}

static bool is_planned_in(ec_fb_vec values, int32_t index, uint32_t id) {
  if (index < 0 || (uint32_t)index >= values.count) return false;
  ec_fb_table value = ec_fb_vec_table(values, (uint32_t)index);
  if (ec_fb_u8(value, EC_PTE_EValue_val_type) == EC_PTE_TENSOR_LIST)
    return any_item_planned_in(values, value, id);
  return ec_allocation_in(value, id) != NULL;
}

static bool any_planned_in(ec_fb_vec values, ec_fb_vec indices, uint32_t id) {
  for (uint32_t i = 0; i < indices.count; i++)
    if (is_planned_in(values, ec_fb_vec_i32(indices, i), id)) return true;
  return false;
}

static bool kernel_writes_out(const ec_method *m, ec_fb_table plan, ec_fb_table call, uint32_t id) {
  ec_fb_vec values = ec_fb_vector(plan, EC_PTE_ExecutionPlan_values);
  ec_fb_vec args = ec_fb_vector(call, EC_PTE_KernelCall_args);
  int32_t index = ec_fb_i32(call, EC_PTE_KernelCall_op_index);
  const ec_op *op = index >= 0 && (size_t)index < m->op_count ? m->ops[index] : NULL;
  for (uint32_t a = 0; op && a < op->nargs && a < args.count; a++)
    if (op->args[a].is_out && is_planned_in(values, ec_fb_vec_i32(args, a), id))
      return true;
  return false;
}

bool ec_is_state(const ec_method *m, ec_fb_table plan, uint32_t id) {
  ec_fb_vec values = ec_fb_vector(plan, EC_PTE_ExecutionPlan_values);
  ec_fb_vec inputs = ec_fb_vector(plan, EC_PTE_ExecutionPlan_inputs);
  ec_fb_vec outputs = ec_fb_vector(plan, EC_PTE_ExecutionPlan_outputs);
  ec_fb_vec chains = ec_fb_vector(plan, EC_PTE_ExecutionPlan_chains);
  if (any_planned_in(values, inputs, id) || any_planned_in(values, outputs, id)) return false;
  for (uint32_t c = 0; c < chains.count; c++) {
    ec_fb_vec instrs = ec_fb_vector(ec_fb_vec_table(chains, c), EC_PTE_Chain_instructions);
    for (uint32_t i = 0; i < instrs.count; i++) {
      ec_fb_table instr = ec_fb_vec_table(instrs, i);
      if (ec_fb_u8(instr, EC_PTE_Instruction_instr_args_type) == EC_PTE_KERNEL_CALL &&
          kernel_writes_out(m, plan, ec_fb_child(instr, EC_PTE_Instruction_instr_args), id))
        return false;
    }
  }
  return true;
}

/* The program's block for shared arena `id`, made by the first method that asks for it. */
ec_status ec_shared_block(ec_method *m, uint32_t id, size_t size, ec_error *err) {
  enum { PAGE = 4096 }; /* the strictest alignment that any method asks for */
  ec_shared_memory *s = &((ec_program *)(uintptr_t)m->program)->shared;
  ec_status status = EC_OK;
  ec_sharing sharing = EC_SHARED_BY_OTHER;
  pthread_mutex_lock(&s->lock);
  if (id >= s->count) {
    uint8_t **blocks = ec_alloc_array((size_t)id + 1, sizeof *blocks);
    size_t *sizes = ec_alloc_array((size_t)id + 1, sizeof *sizes);
    if (blocks && sizes) {
      if (s->count) memcpy(blocks, s->blocks, s->count * sizeof *blocks);
      if (s->count) memcpy(sizes, s->sizes, s->count * sizeof *sizes);
      ec_free(s->blocks);
      ec_free(s->sizes);
      s->blocks = blocks;
      s->sizes = sizes;
      s->count = (size_t)id + 1;
    } else {
      ec_free(blocks);
      ec_free(sizes);
      status = ec_fail(err, EC_MEMORY_ALLOCATION_FAILED, "no memory for shared memory %u", id);
    }
  }
  if (status == EC_OK && !s->blocks[id]) {
    s->blocks[id] = ec_alloc_aligned(size, PAGE);
    s->sizes[id] = size;
    sharing = EC_SHARED_MADE_HERE;
    if (!s->blocks[id])
      status = ec_fail(err, EC_MEMORY_ALLOCATION_FAILED,
                       "no memory for %zu bytes of shared memory %u", size, id);
  }
  if (status == EC_OK && s->sizes[id] == size) {
    m->planned[id] = s->blocks[id];
    m->planned_shared[id] = (uint8_t)sharing;
    m->uses_shared = true;
  }
  pthread_mutex_unlock(&s->lock);
  return status;
}
