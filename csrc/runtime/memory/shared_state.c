/* State shared by the methods of a program: mutable buffers (a KV cache that prefill fills and
 * decode reads) of programs exported with MemoryPlanningPass(share_mutable_buffers=True). The pass
 * plans them at memory id 2 in every method; the file does not mark them as shared.
 *
 * A block and its initial contents belong to the program. They come from all methods that plan the
 * block, independent of the order of loading and of failures. */
#include "runtime/memory/shared_state.h"

#include "core/alloc.h"
#include "runtime/load/decode_values.h"
#include "runtime/load/cost.h"
#include "runtime/program_internal.h"

/* ---- which memory is state --------------------------------------------------------------- */

/* Memory ids of a plan that hold only state. */
typedef struct state_ids {
  bool has[EC_MAX_ARENAS];
} state_ids;

/* Marks values of any kind by their indices in the file. */
static void mark_indices(const ec_rows *rows, ec_fb_vec indices, bool *marked) {
  for (uint32_t i = 0; i < indices.count; i++) {
    const int32_t index = ec_fb_vec_i32(indices, i);
    if (index >= 0 && (uint32_t)index < rows->values.count) marked[index] = true;
  }
}

/* Marks the outs of kernel calls. Errors in a row are reported when its own method is loaded. */
static void mark_outs(const ec_rows *rows, ec_fb_vec instrs, const uint32_t *outs, bool *marked) {
  for (uint32_t i = 0; i < instrs.count; i++) {
    ec_instr_row row;
    if (ec_decode_instr(rows, ec_fb_vec_table(instrs, i), &row, NULL) != EC_OK || row.op < 0)
      continue;
    for (size_t a = 0; a < EC_MAX_OP_ARGS && a < row.arg_count; a++)
      if (outs[row.op] >> a & 1u) marked[ec_row_arg(&row, a)] = true;
  }
}

/* Marks the items of marked lists, each list once. */
static void mark_items(const ec_rows *rows, bool *marked) {
  ec_value_row row;
  for (uint32_t i = 0; i < rows->values.count; i++)
    if (marked[i] && ec_decode_value(rows, i, &row, NULL) == EC_OK &&
        row.info.kind >= EC_KIND_TENSOR_LIST)
      mark_indices(rows, row.items, marked);
}

/* Finds memory ids from 2 on that have tensors, none of them marked. */
static void find_unmarked_memory(const ec_rows *rows, const bool *marked, state_ids *out) {
  ec_value_row row;
  state_ids others = {{false}};
  *out = others;
  for (uint32_t i = 0; i < rows->values.count; i++) {
    if (ec_decode_value(rows, i, &row, NULL) != EC_OK) continue;
    if (row.arena < 2 || row.arena >= EC_MAX_ARENAS) continue;
    out->has[row.arena] = true;
    others.has[row.arena] |= marked[i];
  }
  for (uint32_t id = 0; id < EC_MAX_ARENAS; id++) out->has[id] &= !others.has[id];
}

/* Finds memory in which every tensor is state: not an input or output, and not a kernel's `out`
 * (activations planned there must stay private to the method). */
static ec_status find_state(const ec_rows *rows, state_ids *out, ec_error *err) {
  char name[EC_OP_NAME_BYTES];
  bool *marked = ec_alloc_array(rows->values.count, sizeof *marked);
  uint32_t *outs = ec_alloc_array(rows->operators.count, sizeof *outs);
  ec_status status = EC_OK;
  if (!marked || !outs)
    EC_GOTO(status, ec_fail(err, EC_MEMORY_ALLOCATION_FAILED, "no memory to look for state"));
  for (uint32_t i = 0; i < rows->operators.count; i++)
    if (ec_decode_op_name(rows, (int32_t)i, name)) outs[i] = ec_op_outs(name);
  mark_indices(rows, rows->inputs, marked);
  mark_indices(rows, rows->outputs, marked);
  for (uint32_t c = 0; c < rows->chains.count; c++)
    mark_outs(rows, ec_decode_chain(rows, c), outs, marked);
  mark_items(rows, marked);
  find_unmarked_memory(rows, marked, out);
fail:
  ec_free(marked);
  ec_free(outs);
  return status;
}

/* ---- initial contents -------------------------------------------------------------------- */

/* New blocks for a method, by memory id; NULL if a block exists or none is needed. */
typedef ec_state_block *new_blocks[EC_MAX_ARENAS];

/* Prepends the initial value of one tensor. */
static ec_status add_initial(const ec_rows *rows, const ec_value_row *row, ec_state_block *block,
                             ec_error *err) {
  ec_bytes bytes;
  ec_state_initial *initial;
  const size_t nbytes = row->info.tensor.nbytes;
  if (ec_tensor_bytes(rows->program, row, &bytes, NULL) != EC_OK || !bytes.data || !nbytes)
    return EC_OK;
  EC_TRY(ec_charge_reading(nbytes, err));
  EC_TRY(ec_arena_array(&block->arena, 1, sizeof *initial, "initial state", &initial, err));
  *initial = (ec_state_initial){block->initials, (size_t)row->offset, bytes.data, nbytes};
  block->initials = initial;
  return EC_OK;
}

/* Returns the new block of memory `id` of a plan, or NULL. */
static ec_state_block *find_made_block(const new_blocks blocks, const ec_rows *rows, uint32_t id) {
  size_t size;
  if (id >= EC_MAX_ARENAS || id >= rows->memory.count || !blocks[id]) return NULL;
  if (ec_decode_memory(rows, id, &size, NULL) != EC_OK) return NULL;
  return blocks[id]->size == size ? blocks[id] : NULL;
}

static ec_status read_initials(const new_blocks blocks, const ec_rows *rows, ec_error *err) {
  state_ids ids;
  bool any = false;
  for (uint32_t id = 0; id < EC_MAX_ARENAS; id++) any |= find_made_block(blocks, rows, id) != NULL;
  if (!any) return EC_OK;
  EC_TRY(find_state(rows, &ids, err));
  for (uint32_t i = 0; i < rows->values.count; i++) {
    ec_value_row row;
    if (ec_decode_value(rows, i, &row, NULL) != EC_OK) continue;
    ec_state_block *block = find_made_block(blocks, rows, row.arena);
    if (block && ids.has[row.arena]) EC_TRY(add_initial(rows, &row, block, err));
  }
  return EC_OK;
}

/* ---- blocks ------------------------------------------------------------------------------ */

static ec_status find_blocks(ec_method *m, const state_ids *ids, ec_state_blocks *blocks,
                             new_blocks added, bool *missing, ec_error *err) {
  for (uint32_t id = 2; id < m->planned_count; id++) {
    const size_t size = m->planned_sizes[id];
    if (!size || !ids->has[id]) continue;
    m->uses_shared_state = true;
    m->shared_blocks[id] = ec_state_blocks_find(blocks, id, size);
    if (m->shared_blocks[id]) continue;
    EC_TRY(ec_state_block_new(id, size, &added[id], err));
    *missing = true;
  }
  return EC_OK;
}

static ec_status fill_blocks(const ec_program *program, const new_blocks added, ec_error *err) {
  ec_rows rows;
  for (uint32_t i = 0; i < program->plans.count; i++) {
    ec_rows_init(&rows, program, i);
    EC_TRY(read_initials(added, &rows, err));
  }
  return EC_OK;
}

ec_status ec_share_state(ec_method *m, const ec_rows *rows, ec_error *err) {
  ec_program *program = (ec_program *)(uintptr_t)m->program; /* the list of blocks may grow */
  state_ids ids;
  new_blocks added = {NULL};
  ec_status status = EC_OK;
  bool missing = false;
  EC_TRY(find_state(rows, &ids, err));
  EC_GOTO(status, find_blocks(m, &ids, &program->state, added, &missing, err));
  if (missing) EC_GOTO(status, fill_blocks(program, added, err));
  for (uint32_t id = 2; id < m->planned_count; id++) {
    if (!added[id]) continue;
    ec_state_block_reset(added[id]);
    m->shared_blocks[id] = ec_state_blocks_add(&program->state, added[id]);
    added[id] = NULL;
  }
fail:
  for (uint32_t id = 2; id < EC_MAX_ARENAS; id++) ec_state_block_free(added[id]);
  return status;
}
