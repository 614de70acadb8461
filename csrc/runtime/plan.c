/* Where the memory of a call is: which inputs may be the caller's arrays and which outputs may be
 * written there by their last writer. Everything here is about not seeing a difference: a planner
 * gives one address to many tensors, and the exporter drops view_copy by giving the view the
 * address of its base, without an instruction that says so. */
#include <string.h>

#include "core/checked.h"
#include "runtime/impl.h"

/* What the method, and its instructions in file order, do with one tensor. */
typedef struct use {
  bool used;                 /* is an argument of some instruction */
  bool first_overwrites;     /* ... and the first of them writes all of it */
  bool first_by_delegate;    /* ... or the first is a delegate's: nobody knows */
  bool written;              /* some instruction writes to it, or to a view or alias of it */
  bool is_view;              /* out of an et_view: points into another tensor */
  uint32_t inputs, outputs;  /* how often it is one */
  size_t first, last;        /* instructions, counted over all chains */
  size_t parent;             /* union-find: tensors that a view or a move connects */
} use;

typedef struct planner {
  ec_method *m;
  use *uses; /* by row of m->tensors */
} planner;

static size_t row_of(const planner *p, const ec_value *v) {
  return (size_t)(v->as.tensor - p->m->tensors);
}

static size_t find_group(planner *p, size_t row) {
  while (p->uses[row].parent != row) {
    p->uses[row].parent = p->uses[p->uses[row].parent].parent;
    row = p->uses[row].parent;
  }
  return row;
}

static void join(planner *p, const ec_value *a, const ec_value *b) {
  if (a->kind != EC_KIND_TENSOR || b->kind != EC_KIND_TENSOR) return;
  p->uses[find_group(p, row_of(p, b))].parent = find_group(p, row_of(p, a));
}

typedef enum access { READS, WRITES_SOME, OVERWRITES, BY_DELEGATE } access;

static void note(planner *p, const ec_value *v, size_t at, access how) {
  if (v->kind == EC_KIND_TENSOR_LIST || v->kind == EC_KIND_OPTIONAL_TENSOR_LIST) {
    for (uint32_t i = 0; i < v->count; i++) note(p, v->as.items[i], at, how);
    return;
  }
  if (v->kind != EC_KIND_TENSOR) return;
  use *u = &p->uses[row_of(p, v)];
  if (!u->used) {
    u->used = true;
    u->first = at;
    u->first_overwrites = how == OVERWRITES;
    u->first_by_delegate = how == BY_DELEGATE;
  }
  u->last = at;
  u->written = u->written || how == WRITES_SOME || how == OVERWRITES;
}

static bool is_et_view(const ec_instr *in) { return in->op && in->op->makes_view; }

static access access_of(const ec_instr *in, size_t i) {
  switch ((ec_instr_kind)in->kind) {
  case EC_INSTR_DelegateCall: return BY_DELEGATE;
  case EC_INSTR_MoveCall: return i == 1 ? OVERWRITES : READS;
  case EC_INSTR_KernelCall:
    if (!in->op->args[i].written || is_et_view(in)) return READS;
    return in->op->args[i].is_out ? OVERWRITES : WRITES_SOME; /* copy_ keeps what it skips */
  default: return READS;
  }
}

static void note_instr(planner *p, const ec_instr *in, size_t at) {
  for (size_t i = 0; i < in->count && !(in->op && i >= in->op->nargs); i++)
    note(p, in->args[i], at, access_of(in, i));
  if (is_et_view(in)) {
    join(p, in->args[0], in->args[2]);
    p->uses[row_of(p, in->args[2])].is_view = true;
  }
  if (in->kind == EC_INSTR_MoveCall) join(p, in->args[0], in->args[1]);
  if (in->kind == EC_INSTR_FreeCall) ec_home_of(p->m, in->args[0]->as.tensor)->moves = true;
}

/* A tensor is written where any of its group is. */
static void spread_writes(planner *p) {
  for (size_t i = 0; i < p->m->tensor_count; i++)
    if (p->uses[i].written) p->uses[find_group(p, i)].written = true;
  for (size_t i = 0; i < p->m->tensor_count; i++)
    if (p->uses[find_group(p, i)].written) p->uses[i].written = true;
}

/* The tensors of a list are outputs, too. */
static void count_output(planner *p, const ec_value *v) {
  if (v->kind == EC_KIND_TENSOR_LIST || v->kind == EC_KIND_OPTIONAL_TENSOR_LIST)
    for (uint32_t i = 0; i < v->count; i++) count_output(p, v->as.items[i]);
  else if (v->kind == EC_KIND_TENSOR) p->uses[row_of(p, v)].outputs++;
}

static ec_status gather_uses(planner *p, ec_error *err) {
  ec_method *m = p->m;
  size_t at = 0;
  EC_TRY(ec_arena_array(&m->scratch, m->tensor_count, sizeof *p->uses, "a plan", &p->uses, err));
  for (size_t i = 0; i < m->tensor_count; i++) p->uses[i].parent = i;
  for (size_t c = 0; c < m->chain_count; c++)
    for (size_t i = 0; i < m->chains[c].count; i++) note_instr(p, &m->chains[c].instrs[i], at++);
  spread_writes(p);
  for (size_t i = 0; i < m->input_count; i++)
    if (m->inputs[i].value->kind == EC_KIND_TENSOR) p->uses[row_of(p, m->inputs[i].value)].inputs++;
  for (size_t i = 0; i < m->output_count; i++) count_output(p, m->outputs[i].value);
  return EC_OK;
}

/* ---- memory in common -------------------------------------------------------------------- */

static bool overlaps(const ec_home *a, const ec_home *b) {
  return a->arena && a->arena == b->arena && a->nbytes && b->nbytes &&
         a->offset < b->offset + b->nbytes && b->offset < a->offset + a->nbytes;
}

/* Whether tensor `k` can be seen through the memory of input `row`: an elided view of it, or
 * something that is read before it is written. */
static bool shows_input(const planner *p, size_t row, size_t k) {
  const ec_home *input = &p->m->homes[row], *other = &p->m->homes[k];
  const use *u = &p->uses[k];
  if (k == row || !overlaps(input, other)) return false;
  if (p->m->has_jumps || u->inputs) return true;
  if (!u->used) return u->outputs != 0;
  if (u->first_by_delegate) return input->offset == other->offset && input->nbytes == other->nbytes;
  return !u->first_overwrites;
}

/* An input without planned memory is the caller's memory in the reference: it may be an output. */
static bool input_mutated(const planner *p, const ec_value *value) {
  return value->kind == EC_KIND_TENSOR && p->uses[row_of(p, value)].written &&
         ec_home_of(p->m, value->as.tensor)->arena == 0;
}

static bool input_in_place(const planner *p, const ec_value *value) {
  if (value->kind != EC_KIND_TENSOR) return false;
  size_t row = row_of(p, value);
  if (p->uses[row].written || p->uses[row].inputs > 1) return false;
  for (size_t k = 0; k < p->m->tensor_count; k++)
    if (shows_input(p, row, k)) return false;
  return true;
}

/* Whether an output's memory may be elsewhere: from its first write on, nothing but the output
 * itself may be seen through its planned memory. */
static bool output_direct(const planner *p, size_t index) {
  const ec_method *m = p->m;
  if (!ec_method_output_is_static(m, index) || m->has_jumps) return false;
  size_t row = row_of(p, m->outputs[index].value);
  const use *u = &p->uses[row];
  const ec_home *home = &m->homes[row];
  if (!u->used || u->is_view || u->inputs || u->outputs > 1 || home->flags & EC_TENSOR_READONLY ||
      (home->data && home->named))
    return false;
  if (home->data && !u->first_overwrites) return false; /* state, or perhaps a delegate's */
  for (size_t k = 0; k < m->tensor_count; k++)
    if (k != row && overlaps(home, &m->homes[k]) &&
        (p->uses[k].outputs || (p->uses[k].used && p->uses[k].last > u->first)))
      return false;
  return true;
}

/* ---- memory that nobody planned ---------------------------------------------------------- */

/* A named tensor without memory is a mutable buffer exported with alloc_mutable_buffers=False. */
static ec_status own_unplanned_state(planner *p, ec_error *err) {
  ec_method *m = p->m;
  for (size_t i = 0; i < m->attribute_count; i++) {
    ec_tensor *t = m->attributes[i].tensor;
    ec_home *home = ec_home_of(m, t);
    const use *u = &p->uses[t - m->tensors];
    if (home->data || u->inputs || u->is_view || home->nbytes == 0) continue;
    EC_TRY(ec_arena_array(&m->arena, home->nbytes, 1, "a mutable buffer", &home->data, err));
    t->data = home->data;
    t->capacity = home->capacity = home->nbytes;
    m->initials[m->initial_count++] = (ec_initial){home->data, NULL, home->nbytes};
  }
  return EC_OK;
}

/* Moves into tensors that get no memory of their own in any call. */
static void find_alias_moves(planner *p, const ec_chain *chain) {
  for (size_t i = 0; i < chain->count; i++) {
    ec_instr *in = &chain->instrs[i];
    if (in->kind != EC_INSTR_MoveCall || in->args[0]->kind != EC_KIND_TENSOR) continue;
    const size_t row = row_of(p, in->args[1]);
    ec_home *home = &p->m->homes[row];
    in->aliases = !home->data && !p->uses[row].inputs && !home->staged &&
                  p->m->tensors[row].dynamism != EC_DYNAMIC_UNBOUND;
    home->moves |= in->aliases;
  }
}

static ec_status list_movers(planner *p, ec_error *err) {
  ec_method *m = p->m;
  EC_TRY(ec_arena_array(&m->arena, m->tensor_count, sizeof *m->movers, "a plan", &m->movers, err));
  for (size_t i = 0; i < m->tensor_count; i++) {
    const use *u = &p->uses[i];
    if (m->homes[i].moves || u->is_view || u->inputs || u->outputs ||
        m->tensors[i].dynamism == EC_DYNAMIC_UNBOUND)
      m->movers[m->mover_count++] = &m->tensors[i];
  }
  return EC_OK;
}

/* Comparing every input and output with every tensor must stay cheap for hostile files, too. */
static bool worth_comparing(const ec_method *m) {
  enum { PAIRS = 100 * 1000 * 1000 };
  size_t pairs;
  return ec_mul_size(m->input_count + m->output_count, m->tensor_count, &pairs) && pairs < PAIRS;
}

ec_status ec_plan(ec_method *m, ec_error *err) {
  planner p = {m, NULL};
  EC_TRY(gather_uses(&p, err));
  EC_TRY(own_unplanned_state(&p, err));
  bool compare = worth_comparing(m);
  for (size_t i = 0; i < m->input_count; i++) {
    m->inputs[i].in_place = compare && input_in_place(&p, m->inputs[i].value);
    m->inputs[i].mutated = input_mutated(&p, m->inputs[i].value);
  }
  for (size_t i = 0; i < m->output_count; i++) {
    const ec_value *v = m->outputs[i].value;
    m->outputs[i].direct = compare && output_direct(&p, i);
    if (v->kind != EC_KIND_TENSOR) continue;
    const use *u = &p.uses[row_of(&p, v)];
    m->outputs[i].stage = !v->as.tensor->data && !u->is_view && !u->inputs &&
                          v->as.tensor->dynamism != EC_DYNAMIC_UNBOUND;
    ec_home_of(m, v->as.tensor)->staged |= m->outputs[i].stage;
  }
  for (size_t c = 0; c < m->chain_count; c++) find_alias_moves(&p, &m->chains[c]);
  EC_TRY(list_movers(&p, err));
  ec_arena_reset(&m->scratch);
  return EC_OK;
}
