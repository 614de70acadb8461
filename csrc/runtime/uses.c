/* Uses of tensors, collected from the instructions in file order. */
#include "runtime/uses.h"

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

typedef enum access { READS, WRITES_SOME, OVERWRITES, BY_DELEGATE } access;

static void note_access(const ec_uses *uses, const ec_value *v, size_t at, access how) {
  if (ec_is_tensor_list(v)) {
    for (uint32_t i = 0; i < v->count; i++) note_access(uses, v->as.items[i], at, how);
    return;
  }
  if (v->kind != EC_KIND_TENSOR) return;
  ec_use *use = use_of(uses, v);
  if (!use->used) {
    use->used = true;
    use->first = at;
    use->first_overwrites = how == OVERWRITES;
    use->first_by_delegate = how == BY_DELEGATE;
  }
  use->last = at;
  use->written = use->written || how == WRITES_SOME || how == OVERWRITES;
}

static bool is_et_view(const ec_instr *in) { return in->op && in->op->makes_view; }

static access access_of(const ec_instr *in, size_t i) {
  switch ((ec_instr_kind)in->kind) {
  case EC_INSTR_DelegateCall: return BY_DELEGATE;
  case EC_INSTR_MoveCall: return i == 1 ? OVERWRITES : READS;
  case EC_INSTR_KernelCall:
    if (!in->op->args[i].written || is_et_view(in)) return READS;
    /* copy_ keeps the elements it skips */
    return in->op->args[i].is_out ? OVERWRITES : WRITES_SOME;
  default: return READS;
  }
}

static void note_instr(const ec_uses *uses, const ec_instr *in, size_t at) {
  for (size_t i = 0; i < in->count && !(in->op && i >= in->op->nargs); i++)
    note_access(uses, in->args[i], at, access_of(in, i));
  if (is_et_view(in)) {
    join_groups(uses, in->args[0], in->args[2]);
    use_of(uses, in->args[2])->is_view = true;
  }
  if (in->kind == EC_INSTR_MoveCall) join_groups(uses, in->args[0], in->args[1]);
  if (in->kind == EC_INSTR_FreeCall) use_of(uses, in->args[0])->freed = true;
}

/* ---- whole methods ----------------------------------------------------------------------- */

/* Counts an output. The tensors of a list are outputs, too. */
static void count_output(const ec_uses *uses, const ec_value *v) {
  if (ec_is_tensor_list(v))
    for (uint32_t i = 0; i < v->count; i++) count_output(uses, v->as.items[i]);
  else if (v->kind == EC_KIND_TENSOR) use_of(uses, v)->outputs++;
}

ec_status ec_collect_uses(ec_method *m, ec_uses *uses, ec_error *err) {
  size_t at = 0;
  uses->m = m;
  EC_TRY(ec_arena_array(&m->scratch, m->tensor_count, sizeof *uses->rows, "a plan", &uses->rows,
                        err));
  for (size_t i = 0; i < m->tensor_count; i++) uses->rows[i].parent = i;
  for (size_t c = 0; c < m->chain_count; c++)
    for (size_t i = 0; i < m->chains[c].count; i++)
      note_instr(uses, &m->chains[c].instrs[i], at++);
  spread_writes(uses);
  for (size_t i = 0; i < m->input_count; i++)
    if (m->inputs[i].value->kind == EC_KIND_TENSOR) use_of(uses, m->inputs[i].value)->inputs++;
  for (size_t i = 0; i < m->output_count; i++) count_output(uses, m->outputs[i].value);
  return EC_OK;
}
