/* Copies of the same bytes: expand_copy that repeats nothing, view_copy, clone; and of adjacent
 * ones: slices, selections and splits of the first dimension that has more than one element.
 *
 * The results of such a copy are where the operand has their bytes, outside of planned memory, in
 * blocks that copies use one after the other. The call itself stays: it checks its arguments, has
 * nothing to move (kernels/copy.c), and is recorded as such. All tensors have one writer, and
 * nothing can observe that the memory that the planner gave them is not written any more. */
#include "runtime/passes/merge.h"

#include <string.h>

#include "core/alloc.h"
#include "core/checked.h"
#include "runtime/memory/planned.h"
#include "runtime/passes/fold.h"

enum {
  MIN_BYTES = 256,  /* of a copy: smaller ones take as long as calls that do nothing */
  MAX_BLOCKS = 16,
  MAX_PARTS = 16,   /* of a split */
  PART_ALIGN = 16   /* of the addresses that the planner gives */
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
  size_t offset;  /* in the block */
} place;

/* The results of a copy. */
typedef struct parts {
  size_t count;
  const ec_value *to[MAX_PARTS];
  size_t offset[MAX_PARTS]; /* of their bytes in the operand */
} parts;

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

/* The calls that copy a part of one dimension, or all parts of it: positions of their arguments. */
static const struct region {
  const char *op;
  size_t dim, start, step; /* 0: none */
} regions[] = {
    {"aten::slice_copy.Tensor_out", 1, 2, 4},      {"aten::select_copy.int_out", 1, 2, 0},
    {"aten::split_copy.Tensor_out", 2, 0, 0},      {"aten::split_with_sizes_copy.out", 2, 0, 0},
    {"aten::unbind_copy.int_out", 1, 0, 0},
};

static const struct region *find_region(const ec_instr *in) {
  for (size_t i = 0; i < sizeof regions / sizeof *regions; i++)
    if (strcmp(in->op->name, regions[i].op) == 0) return &regions[i];
  return NULL;
}

/* Returns the number of elements before the region's first one; -1 if it is not known, or if its
 * elements are not adjacent. */
static int64_t find_start(const ec_uses *uses, const ec_instr *in, const struct region *r) {
  const ec_tensor *from = in->args[0]->as.tensor;
  int64_t dim, start = 0, stride = 1;
  for (size_t i = 1; i < in->op->nargs; i++)
    if (!in->op->args[i].is_out && !ec_is_fixed(uses, in->args[i])) return -1;
  dim = ec_value_int(in->args[r->dim]);
  if (dim < 0) dim += from->rank;
  if (dim < 0 || dim >= from->rank) return -1;
  if (r->step && ec_value_int(in->args[r->step]) != 1) return -1;
  if (r->start && in->args[r->start]->kind != EC_KIND_NONE)
    start = ec_value_int(in->args[r->start]);
  if (start < 0) start += from->sizes[dim];
  if (start < 0 || start > from->sizes[dim]) return -1;
  for (int64_t d = 0; d < dim; d++)
    if (from->sizes[d] != 1) return -1;
  for (int64_t d = dim + 1; d < from->rank; d++) stride *= from->sizes[d];
  return start * stride;
}

static bool add_part(parts *p, const ec_instr *in, const ec_value *to, size_t offset) {
  if (!is_row_major(to)) return false;
  const ec_tensor *t = to->as.tensor, *from = in->args[0]->as.tensor;
  const size_t bytes = ec_tensor_nbytes(t), all = ec_tensor_nbytes(from);
  if (t == from || t->dtype != from->dtype || bytes < MIN_BYTES || offset % PART_ALIGN ||
      offset > all || bytes > all - offset || p->count == MAX_PARTS)
    return false;
  p->to[p->count] = to;
  p->offset[p->count++] = offset;
  return true;
}

static bool find_region_parts(const ec_uses *uses, const ec_instr *in, const struct region *r,
                              parts *p) {
  const int64_t start = find_start(uses, in, r);
  const ec_value *out = in->writes[0];
  if (start < 0) return false;
  size_t offset = (size_t)start * ec_dtype_size(ec_tensor_dtype(in->args[0]->as.tensor));
  if (!ec_is_tensor_list(out)) return add_part(p, in, out, offset);
  for (uint32_t i = 0; i < out->count; i++) {
    if (!add_part(p, in, out->as.items[i], offset)) return false;
    offset += ec_tensor_nbytes(out->as.items[i]->as.tensor);
  }
  return true;
}

/* Finds the results of a copy. False if it is none. */
static bool find_parts(const ec_uses *uses, const ec_instr *in, parts *p) {
  p->count = 0;
  if (!in->op || in->op->custom || ec_is_folded(uses->m, in) || in->write_count != 1) return false;
  if (in->op->numbers != EC_NUMBERS_SAME && in->op->numbers != EC_NUMBERS_MOVES) return false;
  if (!is_row_major(in->args[0])) return false;
  const struct region *r = find_region(in);
  if (r) return find_region_parts(uses, in, r, p);
  if (in->op->numbers != EC_NUMBERS_SAME || !is_row_major(in->writes[0])) return false;
  return in->args[0]->as.tensor->numel == in->writes[0]->as.tensor->numel &&
         add_part(p, in, in->writes[0], 0);
}

/* Returns the base of a view that has no instruction; of another tensor, the tensor itself. */
static size_t find_base(const ec_uses *uses, size_t index) {
  for (size_t k = 0; uses->rows[index].is_elided && k < uses->m->tensor_count; k++)
    if (ec_is_elided_view(uses, index, k)) return k;
  return index;
}

static bool is_plain(const merging *g, size_t index) {
  const ec_placement *p = &g->m->placements[index];
  const ec_use *use = &g->uses->rows[index];
  return p->arena && !g->m->shared_blocks[p->arena] && !p->named && !p->folded && !p->kept &&
         !p->rebindable && !(p->flags & EC_TENSOR_READONLY) && !use->inputs && !use->outputs &&
         g->members[ec_use_group(g->uses, index)] == 1;
}

/* True if a tensor and its view, which may be itself, may be anywhere: only instructions that name
 * them can tell. */
static bool is_movable(const merging *g, size_t index, size_t view) {
  const ec_use *use = &g->uses->rows[index];
  if (!is_plain(g, index) || !is_plain(g, view)) return false;
  if (!use->first_overwrites && !use->delegate_overwrites) return false;
  if (g->writers[ec_use_group(g->uses, index)] != 1) return false;
  if (view != index && g->writers[ec_use_group(g->uses, view)] != 0) return false;
  return ec_is_only_view(g->uses, view, index);
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

static void extend_block(block *b, const ec_use *use) {
  if (b->last < use->last) b->last = use->last;
}

static bool are_movable(const merging *g, const parts *p, size_t at) {
  for (size_t i = 0; i < p->count; i++) {
    const size_t index = ec_use_index(g->uses, p->to[i]);
    if (g->uses->rows[index].first != at || !is_movable(g, index, index)) return false;
  }
  return true;
}

/* Places the results of copy `at` where its operand is; an operand without a place gets one. */
static void place_copy(merging *g, size_t at, const parts *found) {
  const ec_value *operand = g->m->instrs[at].args[0];
  const size_t from = ec_use_index(g->uses, operand), base = find_base(g->uses, from);
  const size_t first = g->uses->rows[base].first;
  place *p = &g->places[from];
  if (!are_movable(g, found, at)) return;
  if (!p->block) {
    if (first >= at || !is_movable(g, base, from)) return;
    const uint32_t number = find_block(g, ec_tensor_nbytes(operand->as.tensor), first);
    if (!number) return;
    *p = (place){number, ++g->blocks[number - 1].copies, 0};
  }
  block *b = &g->blocks[p->block - 1];
  if (p->copy != b->copies) return;
  extend_block(b, &g->uses->rows[from]);
  for (size_t i = 0; i < found->count; i++) {
    const size_t to = ec_use_index(g->uses, found->to[i]);
    extend_block(b, &g->uses->rows[to]);
    g->places[to] = (place){p->block, p->copy, p->offset + found->offset[i]};
  }
  g->merged[at] = b->offset + p->offset + 1;
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
  parts found;
  for (size_t i = 0; i < m->instr_count; i++)
    if (find_parts(g.uses, &m->instrs[i], &found)) place_copy(&g, i, &found);
  if (g.count) m->merged.size = g.blocks[g.count - 1].offset + g.blocks[g.count - 1].size;
  return EC_OK;
}

static void move_tensor(const ec_method *m, size_t index, uint8_t *data) {
  m->placements[index].data = data;
  m->tensors[index].data = data;
}

ec_status ec_merge_copies(ec_pass_context *p, ec_error *err) {
  ec_method *m = p->m;
  for (size_t i = 0; i < m->instr_count; i++) {
    const ec_instr *in = &m->instrs[i];
    if (!p->merged[i] || ec_plan_is(m, i, EC_PASS_delegate)) continue;
    if (!m->merged.data)
      EC_TRY(ec_arena_array(&m->arena, m->merged.size + EC_SLACK, 1, "copies", &m->merged.data,
                            err));
    uint8_t *data = m->merged.data + (p->merged[i] - 1);
    const size_t from = ec_use_index(p->uses, in->args[0]);
    move_tensor(m, from, data);
    move_tensor(m, find_base(p->uses, from), data);
    parts found;
    if (!find_parts(p->uses, in, &found)) continue;
    for (size_t k = 0; k < found.count; k++)
      move_tensor(m, ec_use_index(p->uses, found.to[k]), data + found.offset[k]);
    m->plan.changed[EC_PASS_merge]++;
  }
  return EC_OK;
}
