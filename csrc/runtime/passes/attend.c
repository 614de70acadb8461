/* Attention.
 *
 * An exported attention is a product, calls that scale and mask the scores, a softmax, and another
 * product, with copies and views between them. If nothing else reads what lies between, the
 * attention engine computes the last result at the place of the first call, block by block: the
 * scores are in no memory. Nothing else runs between the first and the last call, so that every
 * operand is as the chain would read it. A traced call executes all calls.
 *
 * With dynamic shapes, the bounds decide at load whether a chain is an attention, and the shapes of
 * a call whether the engine computes it (attend_shapes.c). Views are calls then (et_view). */
#include "runtime/passes/attend.h"

#include <math.h>
#include <string.h>

#include "kernels/llm/chain.h"
#include "runtime/passes/attend_shapes.h"
#include "runtime/passes/fold.h"

enum { WINDOW = 64 /* maximum number of instructions of a chain */ };

/* A tensor, and the call of the chain that reads it. */
typedef struct place {
  ec_value *value;
  size_t at;
} place;

typedef struct chain {
  const ec_uses *uses;
  ec_instr *instrs;
  size_t first, last;
  bool members[WINDOW]; /* by distance from `last` */
  place mask, v;        /* mask.value NULL: none */
  double scale;
  int64_t heads;
  struct ec_attention_parts parts;
} chain;

/* ---- calls ------------------------------------------------------------------------------- */

static bool is_folded(const chain *c, size_t at) {
  return ec_is_folded(c->uses->m, &c->instrs[at]);
}

/* True for the call of a softmax that is fused already. */
static bool is_fused(const chain *c, size_t at) { return ec_plan_is(c->uses->m, at, EC_PASS_fuse); }

static bool writes_tensors_only(const ec_instr *in) {
  if (in->kind != EC_INSTR_KernelCall || in->op->custom) return false;
  for (size_t i = 0; i < in->write_count; i++)
    if (in->writes[i]->kind != EC_KIND_TENSOR) return false;
  return true;
}

/* Returns the call of the window before instruction `at` that makes a tensor a view; `last` of the
 * chain: there is none. */
static size_t find_view(const chain *c, const ec_value *v, size_t at) {
  while (at-- > 0 && c->last - at < WINDOW) {
    const ec_instr *in = &c->instrs[at];
    if (in->op && in->op->makes_view && in->args[2]->as.tensor == v->as.tensor) return at;
  }
  return c->last;
}

/* Returns the call of the window before instruction `at` that computes a tensor; `last` of the
 * chain: it is not known. */
static size_t find_writer(const chain *c, const ec_value *v, size_t at) {
  const ec_placement *p = ec_placement_of(c->uses->m, v->as.tensor);
  if (c->uses->rows[ec_use_index(c->uses, v)].is_view) return find_view(c, v, at);
  if (!p->arena || p->folded) return c->last;
  while (at-- > 0 && c->last - at < WINDOW) {
    const ec_instr *in = &c->instrs[at];
    if (is_folded(c, at) || (in->op && in->op->makes_view)) continue;
    if (!writes_tensors_only(in)) return c->last;
    for (size_t i = 0; i < in->write_count; i++) {
      const ec_placement *to = ec_placement_of(c->uses->m, in->writes[i]->as.tensor);
      if (ec_placements_overlap(p, to)) return ec_placements_equal(p, to) ? at : c->last;
    }
  }
  return c->last;
}

static void add_member(chain *c, size_t at) { c->members[c->last - at] = true; }

/* Follows copies that keep the elements and their order back to what they read. The result is the
 * call that computes `p->value`, as find_writer. `from`: no copy before it is followed. */
static size_t follow_copies(chain *c, place *p, size_t from) {
  for (;;) {
    size_t out = 0;
    const size_t at = find_writer(c, p->value, p->at);
    if (at == c->last || at < from ||
        ec_attention_role_of(c->uses->m, &c->instrs[at], &out) != EC_CHAIN_COPY)
      return at;
    ec_value *source = c->instrs[at].args[0];
    const ec_value *copy = c->instrs[at].args[out];
    if (!ec_attention_is_plain(source) || !ec_attention_is_plain(copy) ||
        source->as.tensor->numel != copy->as.tensor->numel)
      return at;
    add_member(c, at);
    *p = (place){source, at};
  }
}

/* ---- from the last product back to the first one ----------------------------------------- */

static bool reduces_last(const chain *c, const ec_instr *in) {
  const ec_tensor *x = in->args[0]->as.tensor;
  const int64_t dim = ec_value_int(in->args[1]);
  return ec_attention_is_plain(in->args[0]) && ec_is_fixed(c->uses, in->args[1]) &&
         ec_is_fixed(c->uses, in->args[2]) && !ec_value_bool(in->args[2]) && x->rank > 0 &&
         ec_tensor_same_sizes(x, in->args[3]->as.tensor) && (dim == -1 || dim == x->rank - 1);
}

/* Returns the role of the call at `at`, which may be not known. */
static ec_attention_role role_at(const chain *c, size_t at, size_t *out) {
  return at == c->last ? EC_CHAIN_OTHER
                       : ec_attention_role_of(c->uses->m, &c->instrs[at], out);
}

/* Finds the softmax whose result the call at `at` is; `scores` becomes what it reads. */
static bool match_softmax(chain *c, size_t at, place *scores) {
  size_t out = 0;
  const ec_attention_role role = role_at(c, at, &out);
  if (role == EC_CHAIN_WHERE && at + 1 >= EC_SAFE_CALLS) {
    const size_t begin = at + 1 - EC_SAFE_CALLS;
    const ec_step *safe = c->uses->m->plan.steps[begin];
    if (safe->pass != EC_PASS_fuse || safe->run->args[3] != c->instrs[at].args[out]) return false;
    if (c->last - begin >= WINDOW) return false;
    for (size_t i = begin; i <= at; i++) add_member(c, i);
    c->parts.is_safe = true;
    at = begin;
  } else if (role != EC_CHAIN_SOFTMAX || is_fused(c, at)) {
    return false;
  }
  add_member(c, at);
  c->parts.softmax = &c->instrs[at];
  *scores = (place){c->instrs[at].args[0], at};
  return reduces_last(c, &c->instrs[at]);
}

/* Reads the number by which a call multiplies or divides. */
static bool find_factor(const chain *c, const ec_instr *in, double *factor) {
  const ec_value *v = in->args[1];
  if (v->kind != EC_KIND_TENSOR) {
    *factor = ec_scalar_double(ec_value_scalar(v));
    return ec_is_fixed(c->uses, v);
  }
  const ec_tensor *t = v->as.tensor;
  if (t->numel != 1 || t->dtype != EC_FLOAT32 || !(t->flags & EC_TENSOR_READONLY) || !t->data ||
      !ec_is_constant_tensor(c->uses->m, t))
    return false;
  float x;
  memcpy(&x, t->data, sizeof x);
  *factor = (double)x;
  return true;
}

static bool match_factor(chain *c, const ec_instr *in, bool divides, place *scores) {
  double factor;
  if (!find_factor(c, in, &factor)) return false;
  c->scale = divides ? c->scale / factor : c->scale * factor;
  scores->value = in->args[0];
  return true;
}

/* True if the first operand of a sum is the scores, which have `count` elements and are computed
 * last, and the second one the mask. */
static bool is_scores_first(const chain *c, const ec_instr *in, size_t at, int64_t count) {
  if (in->args[0]->as.tensor->numel != count) return false;
  if (in->args[1]->as.tensor->numel != count) return true;
  const size_t a = find_writer(c, in->args[0], at), b = find_writer(c, in->args[1], at);
  return a != c->last && (b == c->last || a > b);
}

/* The sum of the scores and a mask. It follows all factors. */
static bool match_mask(chain *c, const ec_instr *in, size_t at, place *scores) {
  if (c->mask.value || c->scale != 1 || !ec_is_fixed(c->uses, in->args[2]) ||
      ec_scalar_double(ec_value_scalar(in->args[2])) != 1)
    return false;
  const bool is_first = is_scores_first(c, in, at, scores->value->as.tensor->numel);
  c->mask = (place){in->args[is_first], at};
  scores->value = in->args[!is_first];
  c->parts.sum = in;
  return true;
}

/* Follows the scores back to the product that computes them. */
static bool match_scores(chain *c, place *scores) {
  for (;;) {
    size_t out = 0;
    const int64_t count = scores->value->as.tensor->numel;
    const size_t at = follow_copies(c, scores, 0);
    const ec_attention_role role = role_at(c, at, &out);
    const ec_instr *in = &c->instrs[at];
    if (role == EC_CHAIN_OTHER || !ec_attention_is_plain(in->args[out])) return false;
    add_member(c, at);
    c->first = scores->at = at;
    if (role == EC_CHAIN_PRODUCT) return true;
    if (role == EC_CHAIN_SUM && !match_mask(c, in, at, scores)) return false;
    if ((role == EC_CHAIN_FACTOR || role == EC_CHAIN_DIVISOR) &&
        !match_factor(c, in, role == EC_CHAIN_DIVISOR, scores))
      return false;
    if (role == EC_CHAIN_SOFTMAX || role == EC_CHAIN_WHERE || role == EC_CHAIN_COPY)
      return false;
    if (!ec_attention_is_plain(scores->value) || scores->value->as.tensor->numel != count ||
        !ec_attention_broadcasts(scores->value->as.tensor, in->args[out]->as.tensor))
      return false;
  }
}

/* ---- conditions -------------------------------------------------------------------------- */

/* True if only calls of the chain can use tensor `k`. */
static bool is_inside(const chain *c, size_t k) {
  return ec_is_used_within(c->uses, k, c->first, c->last);
}

/* True if only calls of the chain read what call `at` writes, by any name. */
static bool is_hidden(const chain *c, size_t k, size_t at) {
  if (!ec_is_result(c->uses, k, at) || !is_inside(c, k)) return false;
  const size_t group = ec_use_group(c->uses, k);
  for (size_t j = 0; j < c->uses->m->tensor_count; j++)
    if ((ec_may_observe(c->uses, k, j) || ec_use_group(c->uses, j) == group) && !is_inside(c, j))
      return false;
  return true;
}

/* True if only calls of the chain use the views that it makes. */
static bool are_views_hidden(const chain *c) {
  for (size_t i = c->first; i < c->last; i++) {
    const ec_instr *in = &c->instrs[i];
    if (in->op->makes_view && !is_folded(c, i) && !is_inside(c, ec_use_index(c->uses, in->args[2])))
      return false;
  }
  return true;
}

/* True if a tensor of the chain has a dynamic shape. */
static bool is_dynamic(const chain *c) {
  for (size_t i = c->first; i <= c->last; i++)
    for (size_t k = 0; k < c->instrs[i].op->nargs; k++) {
      const ec_value *v = c->instrs[i].args[k];
      if (v->kind == EC_KIND_TENSOR && v->as.tensor->dynamism != EC_STATIC) return true;
    }
  return false;
}

/* True if everything from the first call to the last one is a call of the chain. */
static bool is_alone(const chain *c) {
  for (size_t i = c->first; i <= c->last; i++) {
    const ec_instr *in = &c->instrs[i];
    if (is_folded(c, i)) continue;
    if (!c->members[c->last - i] || (is_fused(c, i) && !c->parts.is_safe)) return false;
    for (size_t k = 0; k < in->write_count && i < c->last; k++)
      if (!is_hidden(c, ec_use_index(c->uses, in->writes[k]), i)) return false;
  }
  const ec_use *out = &c->uses->rows[ec_use_index(c->uses, c->instrs[c->last].args[2])];
  return !out->inputs && !out->is_view;
}

/* True if an operand that the chain reads after its first call is the same before it. */
static bool is_unchanged(const chain *c, const place *operand) {
  const ec_placement *p = ec_placement_of(c->uses->m, operand->value->as.tensor);
  const ec_use *use = &c->uses->rows[ec_use_index(c->uses, operand->value)];
  if (use->freed) return false;
  if (c->parts.is_dynamic) return true; /* ec_attention_fits compares addresses */
  if (use->is_view) return false;
  if (p->folded || operand->value->as.tensor->flags & EC_TENSOR_READONLY) return true;
  if (!p->arena) return use->inputs != 0;
  for (size_t i = c->first; i < operand->at; i++)
    for (size_t k = 0; k < c->instrs[i].write_count && !is_folded(c, i); k++)
      if (ec_placements_overlap(p, ec_placement_of(c->uses->m,
                                                   c->instrs[i].writes[k]->as.tensor)))
        return false;
  return true;
}

static bool is_product(const ec_method *m, const ec_instr *in) {
  size_t out = 0;
  return ec_attention_role_of(m, in, &out) == EC_CHAIN_PRODUCT;
}

static bool match_chain(chain *c) {
  place weights = {c->instrs[c->last].args[0], c->last}, scores;
  c->v = (place){c->instrs[c->last].args[1], c->last};
  c->scale = 1;
  add_member(c, c->last);
  if (!is_product(c->uses->m, &c->instrs[c->last]) ||
      !ec_attention_is_plain(weights.value) ||
      !match_softmax(c, follow_copies(c, &weights, 0), &scores) || !match_scores(c, &scores) ||
      !ec_attention_is_plain(c->v.value) || !isfinite(c->scale))
    return false;
  c->parts.first = &c->instrs[c->first];
  c->parts.last = &c->instrs[c->last];
  c->parts.mask = c->mask.value;
  if (!ec_attention_has_shapes(&c->parts, &c->heads)) return false;
  (void)follow_copies(c, &c->v, c->first);
  c->parts.v = c->v.value;
  if (!is_alone(c) || !are_views_hidden(c)) return false;
  c->parts.is_dynamic = is_dynamic(c);
  return is_unchanged(c, &c->v) && (!c->mask.value || is_unchanged(c, &c->mask));
}

/* ---- the call ---------------------------------------------------------------------------- */

/* Makes the call that replaces the chain. */
static ec_status make_call(const chain *c, ec_instr **out, ec_error *err) {
  ec_arena *arena = &c->uses->m->arena;
  const ec_instr *first = &c->instrs[c->first], *last = &c->instrs[c->last];
  ec_value *numbers, **args;
  EC_TRY(ec_arena_array(arena, 1, sizeof **out, "an instruction", out, err));
  EC_TRY(ec_arena_array(arena, 3, sizeof *numbers, "arguments", &numbers, err));
  EC_TRY(ec_arena_array(arena, 2 * EC_CHAIN_ARGS, sizeof *args, "arguments", &args, err));
  numbers[0] = (ec_value){.kind = EC_KIND_DOUBLE, .as.d = c->scale};
  numbers[1] = (ec_value){.kind = EC_KIND_INT, .as.i = c->heads};
  numbers[2] = (ec_value){.kind = EC_KIND_NONE};
  args[EC_CHAIN_Q] = first->args[0];
  args[EC_CHAIN_K] = first->args[1];
  args[EC_CHAIN_V] = c->v.value;
  args[EC_CHAIN_MASK] = c->mask.value ? c->mask.value : &numbers[2];
  args[EC_CHAIN_SCALE] = &numbers[0];
  args[EC_CHAIN_HEADS] = &numbers[1];
  args[EC_CHAIN_OUT] = last->args[2];
  **out = (ec_instr){.kind = EC_INSTR_KernelCall, .number = first->number,
                     .count = EC_CHAIN_ARGS, .args = args, .op = &ec_chain_op,
                     .reads = args, .read_count = c->mask.value ? 4 : 3,
                     .writes = last->writes, .write_count = last->write_count};
  return EC_OK;
}

/* Makes the step of a chain, which declines calls whose shapes it does not fit if it is dynamic. */
static ec_status make_step(const chain *c, ec_step *step, ec_error *err) {
  struct ec_attention_parts *parts;
  ec_instr *call;
  EC_TRY(make_call(c, &call, err));
  *step = (ec_step){.kind = EC_STEP_KernelCall, .pass = EC_PASS_attend,
                    .zero_rows = c->parts.is_safe, .first = (uint32_t)c->first,
                    .count = (uint32_t)(c->last + 1 - c->first), .run = call};
  if (!c->parts.is_dynamic) return EC_OK;
  EC_TRY(ec_arena_array(&c->uses->m->arena, 1, sizeof *parts, "an attention", &parts, err));
  *parts = c->parts;
  step->kind = EC_STEP_Attention;
  step->parts = parts;
  return EC_OK;
}

/* Adds the step of a chain that no backend takes, or keeps it until calls are delegated. */
static ec_status add_chain(ec_pass_context *p, const chain *c, ec_error *err) {
  ec_step step;
  ec_pending_attention *pending;
  EC_TRY(make_step(c, &step, err));
  if (c->parts.is_safe || c->parts.is_dynamic)
    return ec_plan_replace(p->m, step, c->parts.is_dynamic, err);
  EC_TRY(ec_arena_array(p->work, 1, sizeof *pending, "an attention", &pending, err));
  *pending = (ec_pending_attention){p->attentions, step};
  p->attentions = pending;
  return EC_OK;
}

ec_status ec_find_attention(ec_pass_context *p, ec_error *err) {
  ec_method *m = p->m;
  size_t products = 0;
  if (!ec_can_compare(m->tensor_count, m->instr_count)) return EC_OK;
  for (size_t i = 0; i < m->instr_count; i++) products += is_product(m, &m->instrs[i]);
  for (size_t i = 0; i < m->instr_count && products > 1; i++) {
    chain c = {.uses = p->uses, .instrs = m->instrs, .first = i, .last = i};
    if (is_product(m, &m->instrs[i]) && match_chain(&c)) EC_TRY(add_chain(p, &c, err));
  }
  return EC_OK;
}

ec_status ec_add_attention(ec_pass_context *p, ec_error *err) {
  for (const ec_pending_attention *a = p->attentions; a; a = a->next) {
    bool is_delegated = false;
    for (size_t i = a->step.first; i < (size_t)a->step.first + a->step.count; i++)
      is_delegated = is_delegated || ec_plan_is(p->m, i, EC_PASS_delegate);
    if (!is_delegated) EC_TRY(ec_plan_replace(p->m, a->step, false, err));
  }
  return EC_OK;
}
