/* State that the methods of a program share: mutable buffers (a KV cache that prefill fills and
 * decode reads) of programs exported with MemoryPlanningPass(share_mutable_buffers=True), which
 * plans them at memory id 2 in every method. Nothing in the file marks them as shared.
 *
 * A block of it and its first contents are the program's. They come from the file, from all methods
 * that plan the block, whichever of them is loaded first, or fails to load. */
#include <string.h>

#include "core/alloc.h"
#include "runtime/impl.h"

/* ---- which memory is state --------------------------------------------------------------- */

/* Marks a value, of whatever kind, by its index in the file. */
static void mark(ec_fb_vec values, int64_t index, bool *marked) {
  if (index >= 0 && (uint64_t)index < values.count) marked[index] = true;
}

static void mark_all(ec_fb_vec values, ec_fb_vec indices, bool *marked) {
  for (uint32_t i = 0; i < indices.count; i++) mark(values, ec_fb_vec_i32(indices, i), marked);
}

static void mark_outs(ec_fb_vec values, ec_fb_vec instrs, const uint32_t *outs, size_t op_count,
                      bool *marked) {
  for (uint32_t i = 0; i < instrs.count; i++) {
    ec_fb_table call = ec_fb_union(ec_fb_vec_table(instrs, i), EC_PTE_Instruction_instr_args,
                                   EC_PTE_KERNEL_CALL);
    const int32_t op = ec_fb_i32(call, EC_PTE_KernelCall_op_index);
    if (!call || op < 0 || (size_t)op >= op_count) continue;
    ec_fb_vec args = ec_fb_vector(call, EC_PTE_KernelCall_args);
    for (uint32_t a = 0; a < EC_MAX_OP_ARGS && a < args.count; a++)
      if (outs[op] >> a & 1u) mark(values, ec_fb_vec_i32(args, a), marked);
  }
}

/* What is in a marked list is marked, each list once. */
static void mark_items(ec_fb_vec values, bool *marked) {
  for (uint32_t i = 0; i < values.count; i++) {
    ec_fb_table value = ec_fb_vec_table(values, i);
    const uint8_t type = ec_fb_u8(value, EC_PTE_EValue_val_type);
    if (!marked[i] || (type != EC_PTE_TENSOR_LIST && type != EC_PTE_OPTIONAL_TENSOR_LIST)) continue;
    mark_all(values, ec_fb_vector(ec_fb_child(value, EC_PTE_EValue_val), EC_PTE_TensorList_items),
             marked);
  }
}

/* Memory that has tensors, none of which is marked. */
static void read_ids(ec_fb_vec values, const bool *marked, ec_state_ids *out) {
  ec_state_ids others = {{false}};
  *out = others;
  for (uint32_t i = 0; i < values.count; i++) {
    const uint32_t id = ec_planned_id(ec_fb_vec_table(values, i));
    if (id < 2 || id >= EC_MAX_ARENAS) continue;
    out->has[id] = true;
    others.has[id] |= marked[i];
  }
  for (uint32_t id = 0; id < EC_MAX_ARENAS; id++) out->has[id] &= !others.has[id];
}

ec_status ec_state_find(ec_fb_table plan, ec_state_ids *out, ec_error *err) {
  char name[EC_MAX_OP_NAME];
  ec_fb_vec values = ec_fb_vector(plan, EC_PTE_ExecutionPlan_values);
  ec_fb_vec ops = ec_fb_vector(plan, EC_PTE_ExecutionPlan_operators);
  ec_fb_vec chains = ec_fb_vector(plan, EC_PTE_ExecutionPlan_chains);
  bool *marked = ec_alloc_array(values.count, sizeof *marked);
  uint32_t *outs = ec_alloc_array(ops.count, sizeof *outs);
  ec_status status = EC_OK;
  if (!marked || !outs)
    EC_GOTO(status, ec_fail(err, EC_MEMORY_ALLOCATION_FAILED, "no memory to look for state"));
  for (uint32_t i = 0; i < ops.count; i++)
    if (ec_plan_op_name(plan, (int32_t)i, name, sizeof name)) outs[i] = ec_op_outs(name);
  mark_all(values, ec_fb_vector(plan, EC_PTE_ExecutionPlan_inputs), marked);
  mark_all(values, ec_fb_vector(plan, EC_PTE_ExecutionPlan_outputs), marked);
  for (uint32_t c = 0; c < chains.count; c++)
    mark_outs(values, ec_fb_vector(ec_fb_vec_table(chains, c), EC_PTE_Chain_instructions), outs,
              ops.count, marked);
  mark_items(values, marked);
  read_ids(values, marked, out);
fail:
  ec_free(marked);
  ec_free(outs);
  return status;
}

/* ---- first contents ---------------------------------------------------------------------- */

/* Blocks that are made for a method, by memory id; NULL where one is there, or none is wanted. */
typedef struct maker {
  const ec_program *program;
  ec_state_block *made[EC_MAX_ARENAS];
  ec_state_ids ids; /* of the plan that is read */
  size_t sizes[EC_MAX_ARENAS];
} maker;

/* One tensor's first value goes in front of those that were found before. What is wrong with the
 * tensor is said when its own method is loaded. */
static ec_status read_initial(maker *k, uint32_t id, ec_fb_table tensor, ec_error *err) {
  ec_tensor t;
  ec_bytes bytes;
  ec_state_initial *row;
  ec_state_block *block = k->made[id];
  if (ec_read_tensor(tensor, &t, NULL) != EC_OK) return EC_OK;
  const uint64_t offset =
      ec_planned_offset(ec_fb_child(tensor, EC_PTE_Tensor_allocation_info));
  const size_t nbytes = ec_tensor_nbytes(&t);
  if (ec_check_place(id, offset, nbytes, k->sizes, EC_MAX_ARENAS, NULL) != EC_OK ||
      ec_tensor_bytes(k->program, tensor, &t, &bytes, NULL) != EC_OK || !bytes.data || !nbytes)
    return EC_OK;
  EC_TRY(ec_load_again(nbytes, err));
  EC_TRY(ec_arena_array(&block->arena, 1, sizeof *row, "initial state", &row, err));
  *row = (ec_state_initial){block->initials, (size_t)offset, bytes.data, nbytes};
  block->initials = row;
  return EC_OK;
}

static ec_status read_plan(maker *k, ec_fb_table plan, ec_error *err) {
  ec_fb_vec values = ec_fb_vector(plan, EC_PTE_ExecutionPlan_values);
  ec_fb_vec sizes = ec_fb_vector(plan, EC_PTE_ExecutionPlan_non_const_buffer_sizes);
  bool any = false;
  for (uint32_t id = 0; id < EC_MAX_ARENAS; id++) {
    const int64_t size = id < sizes.count ? ec_fb_vec_i64(sizes, id) : -1;
    k->sizes[id] = size > 0 && k->made[id] && k->made[id]->size == (size_t)size ? (size_t)size : 0;
    any |= k->sizes[id] != 0;
  }
  if (!any) return EC_OK;
  EC_TRY(ec_state_find(plan, &k->ids, err));
  for (uint32_t i = 0; i < values.count; i++) {
    ec_fb_table value = ec_fb_vec_table(values, i);
    const uint32_t id = ec_planned_id(value);
    if (id < EC_MAX_ARENAS && k->sizes[id] && k->ids.has[id])
      EC_TRY(read_initial(k, id, ec_fb_child(value, EC_PTE_EValue_val), err));
  }
  return EC_OK;
}

void ec_state_reset(const ec_state_block *block) {
  ec_clear(block->bytes, block->size);
  for (const ec_state_initial *i = block->initials; i; i = i->next)
    memcpy(block->bytes + i->offset, i->bytes, i->size);
}

/* ---- blocks ------------------------------------------------------------------------------ */

static void free_block(ec_state_block *block) {
  if (!block) return;
  ec_arena_deinit(&block->arena);
  ec_free(block->bytes);
  ec_free(block);
}

void ec_state_free(ec_program *program) {
  ec_state_block *block = atomic_load(&program->state);
  while (block) {
    ec_state_block *next = block->next;
    free_block(block);
    block = next;
  }
}

static ec_state_block *find_block(ec_state_block *first, uint32_t id, size_t size) {
  while (first && (first->id != id || first->size != size)) first = first->next;
  return first;
}

static ec_status make_block(uint32_t id, size_t size, ec_state_block **out, ec_error *err) {
  enum { PAGE = 4096 }; /* the strictest alignment that any method asks for */
  ec_state_block *block = ec_alloc_zeroed(sizeof *block);
  *out = block;
  if (block) block->bytes = ec_alloc_aligned(size, PAGE);
  if (!block || !block->bytes)
    return ec_fail(err, EC_MEMORY_ALLOCATION_FAILED,
                   "no memory for %zu bytes of shared memory %u", size, id);
  block->id = id;
  block->size = size;
  return EC_OK;
}

/* Gives a block to the program; where another thread was faster, its block is the one. */
static const ec_state_block *publish(ec_program *program, ec_state_block *block) {
  ec_state_block *first = atomic_load(&program->state);
  for (;;) {
    ec_state_block *there = find_block(first, block->id, block->size);
    if (there) {
      free_block(block);
      return there;
    }
    block->next = first;
    if (atomic_compare_exchange_strong(&program->state, &first, block)) return block;
  }
}

ec_status ec_state_blocks(ec_method *m, const ec_state_ids *ids, ec_error *err) {
  ec_program *program = (ec_program *)(uintptr_t)m->program; /* its list of blocks may grow */
  maker k = {.program = m->program};
  ec_status status = EC_OK;
  bool missing = false;
  for (uint32_t id = 2; id < m->planned_count; id++) {
    const size_t size = m->planned_sizes[id];
    if (!size || !ids->has[id]) continue;
    m->uses_shared = true;
    m->shared[id] = find_block(atomic_load(&program->state), id, size);
    if (m->shared[id]) continue;
    EC_GOTO(status, make_block(id, size, &k.made[id], err));
    missing = true;
  }
  for (uint32_t p = 0; missing && p < program->plans.count; p++)
    EC_GOTO(status, read_plan(&k, ec_fb_vec_table(program->plans, p), err));
  for (uint32_t id = 2; id < m->planned_count; id++) {
    if (!k.made[id]) continue;
    ec_state_reset(k.made[id]);
    m->shared[id] = publish(program, k.made[id]);
    k.made[id] = NULL;
  }
fail:
  for (uint32_t id = 2; id < EC_MAX_ARENAS; id++) free_block(k.made[id]);
  return status;
}
