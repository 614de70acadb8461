/* Constant folding.
 *
 * Exported programs compute on constants in every call: weights are transposed before a product,
 * dequantised, expanded; masks and tables of positions are made. A call is folded when its family
 * takes linear time (kernels/families.def), its arguments never change, and its output has one
 * writer, a static shape and memory in which no other tensor can observe that the output is not
 * written there any more: planners give one address to many tensors. The exporter drops view_copy
 * by giving the view the address of its base; one such view of equal shape is constant with its
 * base.
 *
 * A traced call executes folded instructions again, so that traces have all events and values. */
#include "runtime/passes/fold.h"

#include <string.h>

#include "core/checked.h"
#include "runtime/calls.h"
#include "runtime/passes/turn.h"
#include "runtime/program_internal.h"

enum {
  FREE_BYTES = 16 << 20,  /* that any method may hold */
  FILE_TIMES = 4,         /* and this many times the program's files: int8 weights become floats, */
  MORE_BYTES = 512 << 20  /* and as much again up to this: the floats are transposed */
};

typedef struct folding {
  ec_method *m;
  const ec_uses *uses;
  uint32_t *writers; /* instructions that write a tensor of a group, by its first tensor */
  size_t *views;     /* by tensor: the view of a folded one; itself: none */
  bool *foldable;    /* by instruction */
} folding;

/* ---- what may be folded ------------------------------------------------------------------ */

bool ec_is_constant_tensor(const ec_method *m, const ec_tensor *t) {
  const ec_placement *p = ec_placement_of(m, t);
  return p->folded || (p->data && p->flags & EC_TENSOR_READONLY);
}

static bool is_constant(const folding *f, const ec_value *v) {
  if (v->kind == EC_KIND_TENSOR) return ec_is_constant_tensor(f->m, v->as.tensor);
  for (uint32_t i = 0; ec_is_tensor_list(v) && i < v->count; i++)
    if (!is_constant(f, v->as.items[i])) return false;
  return ec_is_fixed(f->uses, v);
}

static bool are_tensors_equal(const ec_tensor *a, const ec_tensor *b) {
  return a->dtype == b->dtype && ec_tensor_same_sizes(a, b) &&
         memcmp(a->dim_order, b->dim_order, a->rank) == 0;
}

/* Returns the view without an instruction of a tensor, which has its shape, and is read while no
 * other tensor is used in its memory; else the tensor. */
static size_t find_view(const folding *f, size_t index) {
  const ec_method *m = f->m;
  for (size_t view = 0; view < m->tensor_count; view++)
    if (ec_is_elided_view(f->uses, view, index) && m->tensors[view].dynamism == EC_STATIC &&
        !f->writers[ec_use_group(f->uses, view)] &&
        are_tensors_equal(&m->tensors[view], &m->tensors[index]) &&
        ec_is_only_view(f->uses, view, index))
      return view;
  return index;
}

static bool is_free_standing(const folding *f, const ec_value *v) {
  if (v->kind != EC_KIND_TENSOR || v->as.tensor->dynamism != EC_STATIC) return false;
  const size_t index = ec_use_index(f->uses, v);
  const ec_placement *p = &f->m->placements[index];
  const ec_use *use = &f->uses->rows[index];
  if (!p->arena || p->named || p->flags & EC_TENSOR_READONLY || use->inputs || use->outputs ||
      use->freed || use->is_view || !use->first_overwrites ||
      f->writers[ec_use_group(f->uses, index)] != 1)
    return false;
  const size_t view = f->views[index] = find_view(f, index);
  for (size_t k = 0; k < f->m->tensor_count; k++)
    if (k != view && ec_may_observe(f->uses, index, k)) return false;
  return true;
}

static bool is_foldable(const folding *f, const ec_instr *in) {
  if (!in->op || in->op->work != EC_OP_LINEAR || in->op->makes_view || in->op->returns_scalar ||
      in->write_count != 1)
    return false;
  for (size_t i = 0; i < in->op->nargs; i++)
    if (!in->op->args[i].written && !is_constant(f, in->args[i])) return false;
  return is_free_standing(f, in->writes[0]);
}

/* Finds the calls, each of which may read the results of those before it. */
static ec_status find_foldable(folding *f, ec_arena *work, ec_error *err) {
  const ec_method *m = f->m;
  EC_TRY(ec_arena_array(work, m->tensor_count, sizeof *f->writers, "an analysis", &f->writers,
                        err));
  EC_TRY(ec_arena_array(work, m->tensor_count, sizeof *f->views, "an analysis", &f->views, err));
  EC_TRY(ec_arena_array(work, m->instr_count, 1, "an analysis", &f->foldable, err));
  ec_count_writers(f->uses, false, f->writers);
  for (size_t i = 0; i < m->instr_count; i++) {
    const ec_instr *in = &m->instrs[i];
    f->foldable[i] = is_foldable(f, in);
    if (!f->foldable[i]) continue;
    const size_t index = ec_use_index(f->uses, in->writes[0]);
    m->placements[index].folded = m->placements[f->views[index]].folded = true;
  }
  return EC_OK;
}

/* ---- folding ----------------------------------------------------------------------------- */

static bool reads_constants(const ec_method *m, const ec_instr *in) {
  for (size_t i = 0; i < in->read_count; i++) {
    const ec_value *v = in->reads[i];
    if (v->kind == EC_KIND_TENSOR && !ec_is_constant_tensor(m, v->as.tensor)) return false;
    for (uint32_t k = 0; ec_is_tensor_list(v) && k < v->count; k++)
      if (v->as.items[k]->kind == EC_KIND_TENSOR &&
          !ec_is_constant_tensor(m, v->as.items[k]->as.tensor))
        return false;
  }
  return true;
}

static bool are_values_equal(const ec_value *a, const ec_value *b);

static bool are_items_equal(const ec_value *a, const ec_value *b) {
  for (uint32_t i = 0; i < a->count; i++)
    if (!are_values_equal(a->as.items[i], b->as.items[i])) return false;
  return true;
}

/* True if both have the same contents. Constant tensors have if they are the same memory. */
static bool are_values_equal(const ec_value *a, const ec_value *b) {
  if (a == b) return true;
  if (a->kind != b->kind || a->count != b->count) return false;
  switch ((ec_kind)a->kind) {
  case EC_KIND_NONE: return true;
  case EC_KIND_BOOL: return a->as.b == b->as.b;
  case EC_KIND_INT: return a->as.i == b->as.i;
  case EC_KIND_DOUBLE: return memcmp(&a->as.d, &b->as.d, sizeof a->as.d) == 0;
  case EC_KIND_TENSOR:
    return a->as.tensor->data == b->as.tensor->data &&
           are_tensors_equal(a->as.tensor, b->as.tensor);
  case EC_KIND_INT_LIST:
  case EC_KIND_TENSOR_LIST:
  case EC_KIND_OPTIONAL_TENSOR_LIST: return are_items_equal(a, b);
  default: return false;
  }
}

/* True if two folded calls compute the same bytes. */
static bool are_calls_equal(const ec_instr *a, const ec_instr *b) {
  if (a->op != b->op) return false;
  for (size_t i = 0; i < a->op->nargs; i++)
    if (!a->op->args[i].written && !are_values_equal(a->args[i], b->args[i])) return false;
  return are_tensors_equal(a->writes[0]->as.tensor, b->writes[0]->as.tensor);
}

/* Lets the call share the result of an equal one before it. Exporters repeat the transposition of a
 * weight for each step of a recurrent layer, and all steps shall read one copy from the cache. */
static bool share_result(const ec_method *m, size_t at, ec_placement *p) {
  enum { MAX_COMPARED_CALLS = 64 };
  const ec_instr *in = &m->instrs[at];
  for (size_t seen = 0; at-- > 0 && seen < MAX_COMPARED_CALLS;) {
    const ec_instr *other = &m->instrs[at];
    if (!ec_is_folded(m, other)) continue;
    seen++;
    if (!are_calls_equal(in, other)) continue;
    ec_tensor *t = in->writes[0]->as.tensor;
    t->data = p->data = other->writes[0]->as.tensor->data;
    t->capacity = p->capacity = p->nbytes;
    return true;
  }
  return false;
}

/* Runs one call with its output in separate memory. Returns false if the call is not folded. */
static bool fold_call(ec_method *m, size_t at, ec_placement *p) {
  const ec_instr *in = &m->instrs[at];
  ec_tensor *t = in->writes[0]->as.tensor;
  const ec_tensor planned = *t;
  void *block = NULL;
  if (ec_arena_array(&m->arena, p->nbytes, 1, "a folded constant", &block, NULL) != EC_OK)
    return false;
  t->data = block;
  t->capacity = p->nbytes;
  if (ec_run_kernel(m, &m->plan.instrs[at], NULL, NULL) != EC_OK) {
    *t = planned;
    return false;
  }
  p->data = block;
  p->capacity = p->nbytes;
  return true;
}

size_t ec_constant_room(const ec_method *m) {
  size_t room = m->program->file.size;
  for (size_t i = 0; i < m->program->data_count; i++)
    if (!ec_add_size(room, m->program->data[i].size, &room)) return 0;
  if (!ec_mul_size(room, FILE_TIMES, &room) ||
      !ec_add_size(room, room < MORE_BYTES ? room : MORE_BYTES, &room) ||
      !ec_add_size(room, FREE_BYTES, &room))
    return 0;
  return room;
}

static bool has_view(const folding *f, size_t at) {
  const size_t index = ec_use_index(f->uses, f->m->instrs[at].writes[0]);
  return f->views[index] != index;
}

/* Computes the result of call `at`, shares an equal one's, or makes its readers do without. */
static ec_status fold_or_share(const folding *f, size_t at, size_t *room, ec_error *err) {
  ec_method *m = f->m;
  ec_placement *p = ec_placement_of(m, m->instrs[at].writes[0]->as.tensor);
  bool is_turned = false;
  EC_TRY(ec_budget_work(ec_budget_now(), EC_STEP, err));
  if (!reads_constants(m, &m->instrs[at])) {
    p->folded = false;
    return EC_OK;
  }
  if (!has_view(f, at)) EC_TRY(ec_turn_constant(f->uses, at, &is_turned, err));
  if (!is_turned && !share_result(m, at, p)) {
    p->folded = p->nbytes <= *room && fold_call(m, at, p);
    if (!p->folded) return EC_OK;
    *room -= p->nbytes;
    m->folded_bytes += p->nbytes;
    EC_TRY(ec_budget_work(ec_budget_now(), p->nbytes, err));
  }
  const ec_step step = {.kind = EC_STEP_Constant, .pass = EC_PASS_fold, .first = (uint32_t)at,
                        .count = 1};
  ec_plan_assign(m, at, EC_PASS_fold);
  return ec_plan_add(m, step, false, err);
}

/* Lets the view of a folded output read it, or its memory if the call was not folded. */
static void settle_view(const folding *f, size_t at) {
  const ec_method *m = f->m;
  const size_t index = ec_use_index(f->uses, m->instrs[at].writes[0]), view = f->views[index];
  ec_placement *p = &m->placements[view];
  if (view == index) return;
  p->folded = m->placements[index].folded;
  if (!p->folded) return;
  p->data = m->tensors[view].data = m->placements[index].data;
  p->capacity = m->tensors[view].capacity = p->nbytes;
}

ec_status ec_fold_constants(ec_pass_context *p, ec_error *err) {
  folding f = {.m = p->m, .uses = p->uses};
  size_t room = ec_constant_room(p->m);
  EC_TRY(find_foldable(&f, p->work, err));
  for (size_t i = 0; i < p->m->instr_count; i++)
    if (f.foldable[i]) {
      EC_TRY(fold_or_share(&f, i, &room, err));
      settle_view(&f, i);
    }
  return EC_OK;
}
