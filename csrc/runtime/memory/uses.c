/* Uses of tensors, collected from the instructions in file order. */
#include "runtime/memory/uses.h"

#include "backend/registry.h"
#include "core/checked.h"

static ec_use *use_of(const ec_uses *uses, const ec_value *v) {
  return &uses->rows[ec_use_index(uses, v)];
}

/* ---- groups of tensors connected by views and moves -------------------------------------- */

size_t ec_use_group(const ec_uses *uses, size_t index) {
  ec_use *rows = uses->rows;
  while (rows[index].parent != index) {
    rows[index].parent = rows[rows[index].parent].parent;
    index = rows[index].parent;
  }
  return index;
}

static void join_groups(const ec_uses *uses, const ec_value *a, const ec_value *b) {
  if (a->kind != EC_KIND_TENSOR || b->kind != EC_KIND_TENSOR) return;
  uses->rows[ec_use_group(uses, ec_use_index(uses, b))].parent =
      ec_use_group(uses, ec_use_index(uses, a));
}

/* Marks a tensor as written if any tensor of its group is. */
static void spread_writes(const ec_uses *uses) {
  ec_use *rows = uses->rows;
  for (size_t i = 0; i < uses->m->tensor_count; i++)
    if (rows[i].written) rows[ec_use_group(uses, i)].written = true;
  for (size_t i = 0; i < uses->m->tensor_count; i++)
    if (rows[ec_use_group(uses, i)].written) rows[i].written = true;
}

/* ---- instructions ------------------------------------------------------------------------ */

static bool is_et_view(const ec_instr *in) { return in->op && in->op->makes_view; }

static ec_access access_of(const ec_instr *in, size_t i) {
  switch ((ec_instr_kind)in->kind) {
  case EC_INSTR_DelegateCall: return EC_BY_DELEGATE;
  case EC_INSTR_MoveCall: return i == 1 ? EC_OVERWRITES : EC_READS;
  case EC_INSTR_KernelCall:
    if (!in->op->args[i].written || is_et_view(in)) return EC_READS;
    /* copy_ keeps the elements it skips */
    return in->op->args[i].is_out ? EC_OVERWRITES : EC_WRITES_SOME;
  case EC_INSTR_JumpFalseCall:
  case EC_INSTR_FreeCall:
  case EC_INSTR_KINDS: break;
  }
  return EC_READS;
}

void ec_visit_accesses(const ec_instr *in,
                       void (*visit)(void *user, const ec_value *v, ec_access how), void *user) {
  for (size_t i = 0; i < in->count && !(in->op && i >= in->op->nargs); i++) {
    const ec_value *v = in->args[i];
    const ec_access how = access_of(in, i);
    if (v->kind == EC_KIND_TENSOR) visit(user, v, how);
    for (uint32_t k = 0; ec_is_tensor_list(v) && k < v->count; k++)
      if (v->as.items[k]->kind == EC_KIND_TENSOR) visit(user, v->as.items[k], how);
  }
}

/* Returns the number of outputs of a delegate, of which it writes all; 0: unknown. */
static size_t count_outputs(const ec_instr *in) {
  const ec_delegate *d = in->delegate;
  if (!d || !d->ready || !EC_BACKEND_MEMBER(d->backend, output_count)) return 0;
  const size_t outputs = d->backend->output_count(d->backend, d->handle);
  return outputs <= in->count ? outputs : 0;
}

typedef struct noting {
  const ec_uses *uses;
  size_t at;
} noting;

static void note_access(void *user, const ec_value *v, ec_access how) {
  const noting *n = user;
  ec_use *use = use_of(n->uses, v);
  if (!use->used) {
    use->used = true;
    use->first = n->at;
    use->first_overwrites = how == EC_OVERWRITES;
    use->first_by_delegate = how == EC_BY_DELEGATE;
  }
  use->last = n->at;
  use->written = use->written || how == EC_WRITES_SOME || how == EC_OVERWRITES;
}

/* NULL for None in an optional tensor list: it is not a slot of the method. */
static bool *slot_changes(const ec_uses *uses, const ec_value *v) {
  const ec_method *m = uses->m;
  return v >= m->values && v < m->values + m->value_count ? &uses->changes[v - m->values] : NULL;
}

/* Marks slots that may change: only a delegate knows which of its arguments it writes. */
static void note_changes(const ec_uses *uses, const ec_instr *in) {
  size_t from = in->count, end = in->count;
  if (in->kind == EC_INSTR_MoveCall || in->delegate) from = 0;
  if (in->op && in->op->returns_scalar) end = (from = in->op->nargs) + 1;
  for (size_t i = from; i < end; i++)
    if (in->args[i]->kind != EC_KIND_TENSOR && slot_changes(uses, in->args[i]))
      *slot_changes(uses, in->args[i]) = true;
}

bool ec_is_fixed(const ec_uses *uses, const ec_value *v) {
  if (v->kind == EC_KIND_INT_LIST)
    for (uint32_t i = 0; i < v->count; i++)
      if (!ec_is_fixed(uses, v->as.items[i])) return false;
  return !slot_changes(uses, v) || !*slot_changes(uses, v);
}

/* Notes what a delegate does with tensors that no instruction has used before. */
static void note_delegate(const ec_uses *uses, const ec_instr *in, size_t at) {
  const size_t outputs = count_outputs(in);
  for (size_t i = in->count; outputs && i-- > 0;) {
    ec_use *use = in->args[i]->kind == EC_KIND_TENSOR ? use_of(uses, in->args[i]) : NULL;
    if (!use || use->first != at) continue;
    use->delegate_overwrites = i >= in->count - outputs;
    use->delegate_reads = !use->delegate_overwrites;
  }
}

static void note_instr(const ec_uses *uses, const ec_instr *in, size_t at) {
  noting n = {uses, at};
  ec_visit_accesses(in, note_access, &n);
  note_changes(uses, in);
  if (in->delegate) note_delegate(uses, in, at);
  if (is_et_view(in)) {
    join_groups(uses, in->args[0], in->args[2]);
    use_of(uses, in->args[2])->is_view = true;
    use_of(uses, in->args[2])->starts_as_view = use_of(uses, in->args[2])->first == at;
  }
  if (in->kind == EC_INSTR_MoveCall) join_groups(uses, in->args[0], in->args[1]);
  if (in->kind == EC_INSTR_FreeCall) use_of(uses, in->args[0])->freed = true;
}

bool ec_can_compare(size_t a, size_t b) {
  enum { PAIRS = 100 * 1000 * 1000 };
  size_t pairs;
  return ec_mul_size(a, b, &pairs) && pairs < PAIRS;
}

/* ---- shared memory ----------------------------------------------------------------------- */

bool ec_placement_covers(const ec_placement *a, const ec_placement *b) {
  return a->arena && a->arena == b->arena && a->offset <= b->offset &&
         b->offset + b->nbytes <= a->offset + a->nbytes;
}

bool ec_use_is_carried(const ec_uses *uses, size_t index) {
  const ec_use *use = &uses->rows[index];
  const ec_placement *p = &uses->m->placements[index];
  return p->named || (use->used && !use->inputs && !use->first_overwrites && !use->is_elided &&
                      !use->starts_as_view && !(p->flags & EC_TENSOR_READONLY));
}

bool ec_placements_equal(const ec_placement *a, const ec_placement *b) {
  return a->nbytes == b->nbytes && ec_placement_covers(a, b);
}

/* True if tensor `base` is filled before a use: by the first instruction that uses it, or as an
 * input of the method. */
static bool is_filled_before(const ec_use *base, const ec_use *use) {
  return base->inputs || (base->used && base->first_overwrites && base->first < use->first);
}

void ec_find_elided_views(ec_uses *uses) {
  const ec_method *m = uses->m;
  uses->has_elided_views = ec_can_compare(m->tensor_count, m->tensor_count);
  if (!uses->has_elided_views) return;
  for (size_t k = 0; k < m->tensor_count; k++) {
    ec_use *use = &uses->rows[k];
    if (!use->used || use->first_overwrites || use->inputs) continue;
    for (size_t j = 0; j < m->tensor_count; j++) {
      const ec_use *base = &uses->rows[j];
      if (j == k || !is_filled_before(base, use) || m->tensors[j].dynamism != EC_STATIC ||
          !ec_placement_covers(&m->placements[j], &m->placements[k]))
        continue;
      const size_t filled = base->inputs ? 0 : base->first;
      if (!use->is_elided || filled > use->filled) use->filled = filled;
      use->is_elided = true;
    }
  }
}

/* True if a delegate uses the tensor first, and does not tell how. */
static bool is_first_unknown(const ec_use *use) {
  return use->first_by_delegate && !use->delegate_overwrites && !use->delegate_reads;
}

bool ec_may_observe(const ec_uses *uses, size_t index, size_t other) {
  const ec_placement *a = &uses->m->placements[index], *b = &uses->m->placements[other];
  const ec_use *use = &uses->rows[other];
  const size_t at = uses->rows[index].first;
  if (index == other || !ec_placements_overlap(a, b)) return false;
  if (b->named || is_first_unknown(use)) return true;
  if (!use->used) return use->outputs != 0;
  if (use->first_overwrites || use->delegate_overwrites) /* before `index`, and read after it */
    return use->first <= at && (use->outputs || use->last > at);
  if (use->starts_as_view) return false;
  if (use->is_elided && !use->outputs && (use->filled > at || use->last < at)) return false;
  return !use->inputs || use->outputs || use->last > at;
}

bool ec_is_used_beside(const ec_uses *uses, size_t index, size_t other) {
  const ec_placement *a = &uses->m->placements[index], *b = &uses->m->placements[other];
  const ec_use *mine = &uses->rows[index], *use = &uses->rows[other];
  return index != other && use->used && use->first <= mine->last &&
         (use->last >= mine->first || use->outputs) && ec_placements_overlap(a, b);
}

bool ec_is_elided_view(const ec_uses *uses, size_t view, size_t base) {
  const ec_use *use = &uses->rows[view], *filler = &uses->rows[base];
  return view != base && use->is_elided && !use->outputs && !use->inputs && !filler->inputs &&
         filler->first_overwrites && filler->first == use->filled &&
         ec_placements_equal(&uses->m->placements[base], &uses->m->placements[view]);
}

bool ec_is_only_view(const ec_uses *uses, size_t view, size_t base) {
  const ec_use *from = &uses->rows[base], *to = &uses->rows[view];
  if (from->last > to->last) return false;
  for (size_t k = 0; k < uses->m->tensor_count; k++) {
    const ec_use *use = &uses->rows[k];
    if (k == base || k == view) continue;
    if (ec_may_observe(uses, base, k)) return false;
    if (use->used && use->first <= to->last && (use->last >= from->first || use->outputs) &&
        ec_placements_overlap(&uses->m->placements[base], &uses->m->placements[k]))
      return false;
  }
  return true;
}

bool ec_is_used_within(const ec_uses *uses, size_t index, size_t first, size_t last) {
  const ec_use *use = &uses->rows[index];
  return use->used && !use->first_by_delegate && use->first >= first && use->last <= last &&
         !use->inputs && !use->outputs && !use->freed && !uses->m->placements[index].named;
}

bool ec_is_result(const ec_uses *uses, size_t index, size_t at) {
  const ec_use *use = &uses->rows[index];
  return uses->m->placements[index].arena && !use->is_view && use->first_overwrites &&
         use->first == at;
}

bool ec_is_private(const ec_uses *uses, size_t index, size_t at, size_t last) {
  if (!ec_is_result(uses, index, at) || !ec_is_used_within(uses, index, at, last)) return false;
  for (size_t k = 0; k < uses->m->tensor_count; k++)
    if (ec_may_observe(uses, index, k)) return false;
  return true;
}

/* ---- writers ----------------------------------------------------------------------------- */

static void count_writer(const ec_uses *uses, const ec_value *v, uint32_t *writers) {
  if (ec_is_tensor_list(v))
    for (uint32_t i = 0; i < v->count; i++) count_writer(uses, v->as.items[i], writers);
  else if (v->kind == EC_KIND_TENSOR) writers[ec_use_group(uses, ec_use_index(uses, v))]++;
}

/* Returns the index of the first argument that a move or a delegate may write; of other
 * instructions the number of arguments. */
static size_t first_written(const ec_instr *in, bool asks_backends) {
  if (in->kind != EC_INSTR_MoveCall && !in->delegate) return in->count;
  const size_t outputs = asks_backends ? count_outputs(in) : 0;
  return outputs ? in->count - outputs : 0;
}

void ec_count_writers(const ec_uses *uses, bool asks_backends, uint32_t *writers) {
  for (size_t i = 0; i < uses->m->instr_count; i++) {
    const ec_instr *in = &uses->m->instrs[i];
    for (size_t k = first_written(in, asks_backends); k < in->count; k++)
      count_writer(uses, in->args[k], writers);
    for (size_t k = 0; in->op && k < in->write_count; k++)
      count_writer(uses, in->writes[k], writers);
  }
}

/* ---- whole methods ----------------------------------------------------------------------- */

/* Counts an output. The tensors of a list are outputs, too. */
static void count_output(const ec_uses *uses, const ec_value *v) {
  if (ec_is_tensor_list(v))
    for (uint32_t i = 0; i < v->count; i++) count_output(uses, v->as.items[i]);
  else if (v->kind == EC_KIND_TENSOR) use_of(uses, v)->outputs++;
}

ec_status ec_collect_uses(ec_method *m, ec_arena *arena, ec_uses *uses, ec_error *err) {
  *uses = (ec_uses){.m = m};
  EC_TRY(ec_arena_array(arena, m->tensor_count, sizeof *uses->rows, "an analysis", &uses->rows,
                        err));
  EC_TRY(ec_arena_array(arena, m->value_count, sizeof *uses->changes, "an analysis",
                        &uses->changes, err));
  for (size_t i = 0; i < m->tensor_count; i++) uses->rows[i].parent = i;
  for (size_t i = 0; i < m->instr_count; i++) note_instr(uses, &m->instrs[i], i);
  spread_writes(uses);
  for (size_t i = 0; i < m->input_count; i++)
    if (m->inputs[i].value->kind == EC_KIND_TENSOR) use_of(uses, m->inputs[i].value)->inputs++;
  for (size_t i = 0; i < m->output_count; i++) count_output(uses, m->outputs[i].value);
  return EC_OK;
}
