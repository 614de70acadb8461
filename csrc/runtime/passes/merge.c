/* Copies of the same bytes: expand_copy that repeats nothing, view_copy, clone.
 *
 * The operand and the result of such a copy get one address outside of planned memory, in blocks
 * that copies use one after the other. The call itself stays: it checks its arguments, has nothing
 * to move (kernels/copy.c), and is recorded as such. Both tensors have one writer, and nothing can
 * observe that the memory that the planner gave them is not written any more. */
#include "runtime/passes/merge.h"

#include "core/alloc.h"
#include "core/checked.h"
#include "runtime/memory/planned.h"
#include "runtime/passes/fold.h"

enum {
  MIN_BYTES = 1024, /* of a copy: smaller ones take as long as calls that do nothing */
  MAX_BLOCKS = 16
};

/* Memory that copies use one after the other. */
typedef struct block {
  size_t size, offset;
  size_t last;     /* the last instruction that reads it so far */
  uint32_t copies; /* chains of copies that use it */
} block;

/* The place of a tensor. */
typedef struct place {
  uint32_t block; /* 1-based; 0: none */
  uint32_t copy;  /* the chain of copies that it belongs to */
} place;

typedef struct merging {
  ec_method *m;
  const ec_uses *uses;
  size_t *merged;              /* ec_pass_context.merged */
  uint32_t *writers, *members; /* of a group, by its first tensor */
  place *places;               /* by tensor */
  block blocks[MAX_BLOCKS];
  uint32_t count;
  bool reuses; /* blocks: false beside calls that are fused, which run earlier or later */
} merging;

/* ---- which copies ------------------------------------------------------------------------ */

static bool is_row_major(const ec_value *v) {
  return v->kind == EC_KIND_TENSOR && v->as.tensor->dynamism == EC_STATIC &&
         ec_tensor_is_contiguous(v->as.tensor);
}

static bool is_copy_of_bytes(const ec_method *m, const ec_instr *in) {
  if (!in->op || in->op->custom || ec_is_folded(m, in) || in->write_count != 1) return false;
  if (in->op->numbers != EC_NUMBERS_SAME) return false;
  if (!is_row_major(in->args[0]) || !is_row_major(in->writes[0])) return false;
  const ec_tensor *from = in->args[0]->as.tensor, *to = in->writes[0]->as.tensor;
  return from != to && from->dtype == to->dtype && from->numel == to->numel &&
         ec_tensor_nbytes(to) >= MIN_BYTES;
}

/* True if the tensor may be anywhere: only instructions that name it can tell. */
static bool is_movable(const merging *g, size_t index) {
  const ec_placement *p = &g->m->placements[index];
  const ec_use *use = &g->uses->rows[index];
  const size_t group = ec_use_group(g->uses, index);
  if (!p->arena || g->m->shared_blocks[p->arena] || p->named || p->folded || p->kept ||
      p->rebindable || p->flags & EC_TENSOR_READONLY || use->inputs || use->outputs)
    return false;
  if (!use->first_overwrites && !use->delegate_overwrites) return false;
  if (g->members[group] != 1 || g->writers[group] != 1) return false;
  for (size_t k = 0; k < g->m->tensor_count; k++)
    if (ec_may_observe(g->uses, index, k) || ec_is_used_beside(g->uses, index, k)) return false;
  return true;
}

/* ---- blocks ------------------------------------------------------------------------------ */

/* Returns the room for blocks: as much as is planned. */
static size_t find_room(const merging *g) {
  size_t room = 0;
  for (size_t i = 1; i < g->m->planned_count; i++)
    if (!ec_add_size(room, g->m->planned_sizes[i], &room)) return 0;
  return room;
}

/* Finds a block that nothing reads from instruction `first` on; else makes one. 0: no room. */
static uint32_t find_block(merging *g, size_t bytes, size_t first) {
  size_t used = 0;
  for (uint32_t b = 0; b < g->count; b++) {
    if (g->reuses && g->blocks[b].last < first && g->blocks[b].size >= bytes) return b + 1;
    used += g->blocks[b].size;
  }
  const size_t size = (bytes + EC_ALIGN - 1) / EC_ALIGN * EC_ALIGN, room = find_room(g);
  if (g->count == MAX_BLOCKS || used > room || size > room - used) return 0;
  g->blocks[g->count++] = (block){.size = size, .offset = used};
  return g->count;
}

/* Places the result of copy `at` where its operand is; an operand without a place gets one. */
static void place_copy(merging *g, size_t at) {
  const ec_instr *in = &g->m->instrs[at];
  const size_t from = ec_use_index(g->uses, in->args[0]);
  const size_t to = ec_use_index(g->uses, in->writes[0]);
  const ec_use *operand = &g->uses->rows[from], *result = &g->uses->rows[to];
  place *p = &g->places[from];
  if (result->first != at || !is_movable(g, to)) return;
  if (!p->block) {
    if (operand->first >= at || !is_movable(g, from)) return;
    const uint32_t number = find_block(g, ec_tensor_nbytes(in->args[0]->as.tensor), operand->first);
    if (!number) return;
    *p = (place){number, ++g->blocks[number - 1].copies};
  }
  block *b = &g->blocks[p->block - 1];
  if (p->copy != b->copies) return;
  if (b->last < operand->last) b->last = operand->last;
  if (b->last < result->last) b->last = result->last;
  g->places[to] = *p;
  g->merged[at] = b->offset + 1;
}

/* True if each instruction runs in its place: calls that are fused run earlier or later. */
static bool are_in_order(const ec_pass_context *p) {
  for (size_t i = 0; i < p->m->instr_count; i++)
    if (!ec_plan_is(p->m, i, EC_NO_PASS) && !ec_plan_is(p->m, i, EC_PASS_fold)) return false;
  return !p->attentions;
}

ec_status ec_find_merges(ec_pass_context *p, ec_error *err) {
  ec_method *m = p->m;
  merging g = {.m = m, .uses = p->uses, .reuses = are_in_order(p)};
  const size_t n = m->tensor_count;
  EC_TRY(ec_arena_array(p->work, n, sizeof *g.writers, "an analysis", &g.writers, err));
  EC_TRY(ec_arena_array(p->work, n, sizeof *g.members, "an analysis", &g.members, err));
  EC_TRY(ec_arena_array(p->work, n, sizeof *g.places, "an analysis", &g.places, err));
  EC_TRY(ec_arena_array(p->work, m->instr_count, sizeof *g.merged, "an analysis", &g.merged, err));
  p->merged = g.merged;
  ec_count_writers(g.uses, true, g.writers);
  for (size_t k = 0; k < n; k++) g.members[ec_use_group(g.uses, k)]++;
  for (size_t i = 0; i < m->instr_count; i++)
    if (is_copy_of_bytes(m, &m->instrs[i])) place_copy(&g, i);
  if (g.count) m->merged.size = g.blocks[g.count - 1].offset + g.blocks[g.count - 1].size;
  return EC_OK;
}

static void move_tensor(const ec_method *m, const ec_value *v, uint8_t *data) {
  ec_placement_of(m, v->as.tensor)->data = data;
  v->as.tensor->data = data;
}

ec_status ec_merge_copies(ec_pass_context *p, ec_error *err) {
  ec_method *m = p->m;
  for (size_t i = 0; i < m->instr_count; i++) {
    const ec_instr *in = &m->instrs[i];
    if (!p->merged[i] || ec_plan_is(m, i, EC_PASS_delegate)) continue;
    if (!m->merged.data)
      EC_TRY(ec_arena_array(&m->arena, m->merged.size + EC_SLACK, 1, "copies", &m->merged.data,
                            err));
    move_tensor(m, in->args[0], m->merged.data + (p->merged[i] - 1));
    move_tensor(m, in->writes[0], m->merged.data + (p->merged[i] - 1));
    m->plan.changed[EC_PASS_merge]++;
  }
  return EC_OK;
}
