/* Attention.
 *
 * An exported attention is a product, calls that scale and mask the scores, a softmax, and another
 * product, with copies and views between them. If nothing else reads what lies between, the
 * attention engine computes the last result at the place of the first call, block by block: the
 * scores are in no memory. Nothing else runs between the first and the last call, so that every
 * operand is as the chain would read it. A traced call executes all calls. */
#include "runtime/attend.h"

#include <math.h>
#include <string.h>

#include "kernels/llm/chain.h"
#include "runtime/fold.h"

enum {
  WINDOW = 64,      /* maximum number of instructions of a chain */
  LEAST_ROWS = 17,  /* of queries: the engine has another loop for fewer */
  LEAST_SCORES = 1 << 17, /* smaller ones stay in the cache between calls */
  SAFE_CALLS = 7    /* of a softmax that fuse.c fuses */
};

typedef enum role { OTHER, COPY, SUM, FACTOR, DIVISOR, SOFTMAX, WHERE, PRODUCT } role;

/* The operators of a chain, and their `out` arguments. */
static const struct {
  const char *op;
  role role;
  size_t out;
} rows[] = {
    {"aten::expand_copy.out", COPY, 3},
    {"aten::view_copy.out", COPY, 2},
    {"aten::clone.out", COPY, 2},
    {"dim_order_ops::_clone_dim_order.out", COPY, 3},
    {"aten::add.out", SUM, 3},
    {"aten::mul.out", FACTOR, 2},
    {"aten::mul.Scalar_out", FACTOR, 2},
    {"aten::div.out", DIVISOR, 2},
    {"aten::div.Scalar_out", DIVISOR, 2},
    {"aten::_softmax.out", SOFTMAX, 3},
    {"aten::where.self_out", WHERE, 3},
    {"aten::bmm.out", PRODUCT, 2},
};

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
  bool safe;            /* its softmax is fused */
  int64_t n, queries, keys, dim, heads;
} chain;

/* ---- calls ------------------------------------------------------------------------------- */

static role role_of(const ec_instr *in, size_t *out) {
  if (!in->op || in->op->custom || in->folded) return OTHER;
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    if (strcmp(rows[i].op, in->op->name) != 0) continue;
    *out = rows[i].out;
    return rows[i].role;
  }
  return OTHER;
}

/* True for static tensors of contiguous float32 elements. */
static bool is_plain(const ec_value *v) {
  const ec_tensor *t = v->as.tensor;
  return v->kind == EC_KIND_TENSOR && t->dynamism == EC_STATIC && t->dtype == EC_FLOAT32 &&
         t->numel > 0 && ec_tensor_is_contiguous(t);
}

static bool writes_tensors_only(const ec_instr *in) {
  if (in->kind != EC_INSTR_KernelCall || in->op->custom || in->op->makes_view) return false;
  for (size_t i = 0; i < in->write_count; i++)
    if (in->writes[i]->kind != EC_KIND_TENSOR) return false;
  return true;
}

/* Returns the call of the window before instruction `at` that computes a tensor; `last` of the
 * chain: it is not known. */
static size_t find_writer(const chain *c, const ec_value *v, size_t at) {
  const ec_placement *p = ec_placement_of(c->uses->m, v->as.tensor);
  if (!p->arena || p->folded) return c->last;
  while (at-- > 0 && c->last - at < WINDOW) {
    const ec_instr *in = &c->instrs[at];
    if (in->folded) continue;
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
    if (at == c->last || at < from || role_of(&c->instrs[at], &out) != COPY) return at;
    ec_value *source = c->instrs[at].args[0];
    const ec_value *copy = c->instrs[at].args[out];
    if (!is_plain(source) || !is_plain(copy) ||
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
  return is_plain(in->args[0]) && ec_is_fixed(c->uses, in->args[1]) &&
         ec_is_fixed(c->uses, in->args[2]) && !ec_value_bool(in->args[2]) && x->rank > 0 &&
         ec_tensor_same_sizes(x, in->args[3]->as.tensor) && (dim == -1 || dim == x->rank - 1);
}

/* Finds the softmax whose result the call at `at` is; `scores` becomes what it reads. */
static bool match_softmax(chain *c, size_t at, place *scores) {
  size_t out = 0;
  const role found = at == c->last ? OTHER : role_of(&c->instrs[at], &out);
  if (found == WHERE && at + 1 >= SAFE_CALLS) {
    const size_t begin = at + 1 - SAFE_CALLS;
    const ec_instr *call = c->instrs[begin].fusion;
    if (!call || !call->zero_rows || call->args[3] != c->instrs[at].args[out]) return false;
    if (c->last - begin >= WINDOW) return false;
    for (size_t i = begin; i <= at; i++) add_member(c, i);
    c->safe = true;
    at = begin;
  } else if (found != SOFTMAX || c->instrs[at].fused) {
    return false;
  }
  add_member(c, at);
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
  c->heads = in->args[3]->as.tensor->rank == 4 ? in->args[3]->as.tensor->sizes[1] : 0;
  return true;
}

/* True if a tensor broadcasts to the result of a call. */
static bool broadcasts(const ec_tensor *t, const ec_tensor *to) {
  if (t->rank > to->rank) return false;
  for (size_t i = 1; i <= t->rank; i++) {
    const int64_t size = t->sizes[t->rank - i];
    if (size != 1 && size != to->sizes[to->rank - i]) return false;
  }
  return true;
}

/* Follows the scores back to the product that computes them. */
static bool match_scores(chain *c, place *scores) {
  for (;;) {
    size_t out = 0;
    const int64_t count = scores->value->as.tensor->numel;
    const size_t at = follow_copies(c, scores, 0);
    const role found = at == c->last ? OTHER : role_of(&c->instrs[at], &out);
    const ec_instr *in = &c->instrs[at];
    if (found == OTHER || !is_plain(in->args[out])) return false;
    add_member(c, at);
    c->first = scores->at = at;
    if (found == PRODUCT) return true;
    if (found == SUM && !match_mask(c, in, at, scores)) return false;
    if ((found == FACTOR || found == DIVISOR) &&
        !match_factor(c, in, found == DIVISOR, scores))
      return false;
    if (found == SOFTMAX || found == WHERE || found == COPY) return false;
    if (!is_plain(scores->value) || scores->value->as.tensor->numel != count ||
        !broadcasts(scores->value->as.tensor, in->args[out]->as.tensor))
      return false;
  }
}

/* ---- conditions -------------------------------------------------------------------------- */

static bool has_shape(const ec_value *v, int64_t a, int64_t b, int64_t c) {
  return is_plain(v) && ec_tensor_has_sizes(v->as.tensor, 3, (const int64_t[]){a, b, c});
}

/* True if the mask broadcasts to the scores as the engine reads it. */
static bool fits_mask(const chain *c) {
  const ec_value *v = c->mask.value;
  const ec_tensor *t = v->as.tensor, *scores = c->instrs[c->mask.at].args[3]->as.tensor;
  if (!is_plain(v) || t->rank < 1 || !broadcasts(t, scores)) return false;
  if (scores->rank < 3 || scores->rank > 4 || t->sizes[t->rank - 1] != c->keys) return false;
  return scores->sizes[scores->rank - 1] == c->keys &&
         scores->sizes[scores->rank - 2] == c->queries;
}

static bool have_shapes(chain *c, const ec_value *scores) {
  const ec_instr *first = &c->instrs[c->first], *last = &c->instrs[c->last];
  const ec_tensor *q = first->args[0]->as.tensor, *k = first->args[1]->as.tensor;
  if (!is_plain(first->args[0]) || q->rank != 3 || k->rank != 3) return false;
  c->n = q->sizes[0];
  c->queries = q->sizes[1];
  c->dim = q->sizes[2];
  c->keys = k->sizes[2];
  if (!c->heads) c->heads = c->n;
  return c->queries >= LEAST_ROWS && scores->as.tensor->numel >= LEAST_SCORES &&
         isfinite(c->scale) && c->n % c->heads == 0 &&
         scores->as.tensor->sizes[scores->as.tensor->rank - 1] == c->keys &&
         has_shape(first->args[1], c->n, c->dim, c->keys) &&
         has_shape(first->args[2], c->n, c->queries, c->keys) &&
         has_shape(last->args[0], c->n, c->queries, c->keys) &&
         has_shape(last->args[1], c->n, c->keys, c->dim) &&
         has_shape(last->args[2], c->n, c->queries, c->dim) && (!c->mask.value || fits_mask(c));
}

/* True if only calls of the chain can use tensor `k`. */
static bool is_inside(const chain *c, size_t k) {
  return ec_is_used_within(c->uses, k, c->first, c->last);
}

/* True if only calls of the chain read what call `at` writes. */
static bool is_hidden(const chain *c, size_t k, size_t at) {
  if (!ec_is_result(c->uses, k, at) || !is_inside(c, k)) return false;
  for (size_t j = 0; j < c->uses->m->tensor_count; j++)
    if (ec_may_observe(c->uses, k, j) && !is_inside(c, j)) return false;
  return true;
}

/* True if everything from the first call to the last one is a call of the chain. */
static bool is_alone(const chain *c) {
  for (size_t i = c->first; i <= c->last; i++) {
    const ec_instr *in = &c->instrs[i];
    if (in->folded) continue;
    if (!c->members[c->last - i] || (in->fused && !c->safe)) return false;
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
  if (use->is_view || use->freed) return false;
  if (p->folded || operand->value->as.tensor->flags & EC_TENSOR_READONLY) return true;
  if (!p->arena) return use->inputs != 0;
  for (size_t i = c->first; i < operand->at; i++)
    for (size_t k = 0; k < c->instrs[i].write_count && !c->instrs[i].folded; k++)
      if (ec_placements_overlap(p, ec_placement_of(c->uses->m,
                                                   c->instrs[i].writes[k]->as.tensor)))
        return false;
  return true;
}

static bool match_chain(chain *c) {
  size_t out = 0;
  place weights = {c->instrs[c->last].args[0], c->last}, scores;
  c->v = (place){c->instrs[c->last].args[1], c->last};
  c->scale = 1;
  add_member(c, c->last);
  if (role_of(&c->instrs[c->last], &out) != PRODUCT || !is_plain(weights.value)) return false;
  if (!match_softmax(c, follow_copies(c, &weights, 0), &scores)) return false;
  const ec_value *masked = scores.value;
  if (!match_scores(c, &scores) || !is_plain(c->v.value) || !have_shapes(c, masked)) return false;
  (void)follow_copies(c, &c->v, c->first);
  return is_alone(c) && is_unchanged(c, &c->v) && (!c->mask.value || is_unchanged(c, &c->mask));
}

/* ---- the call ---------------------------------------------------------------------------- */

/* Makes the call that replaces the chain. */
static ec_status make_call(const chain *c, ec_error *err) {
  ec_arena *arena = &c->uses->m->arena;
  ec_instr *first = &c->instrs[c->first], *last = &c->instrs[c->last], *call;
  ec_value *numbers, **args;
  EC_TRY(ec_arena_array(arena, 1, sizeof *call, "an instruction", &call, err));
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
  *call = (ec_instr){.kind = EC_INSTR_KernelCall, .number = first->number,
                     .count = EC_CHAIN_ARGS, .args = args, .op = &ec_chain_op,
                     .reads = args, .read_count = c->mask.value ? 4 : 3,
                     .writes = last->writes, .write_count = last->write_count,
                     .zero_rows = c->safe, .destination = c->last + 1};
  first->attention = call;
  return EC_OK;
}

static void fuse_chain(const ec_method *m, size_t first) {
  const ec_instr *call = m->instrs[first].attention;
  for (size_t i = first; i < call->destination; i++) {
    m->instrs[i].fusion = NULL;
    m->instrs[i].fused = !m->instrs[i].folded;
  }
  m->instrs[first].fusion = call;
}

static bool is_product(const ec_instr *in) {
  size_t out = 0;
  return role_of(in, &out) == PRODUCT;
}

ec_status ec_find_attention(ec_method *m, const ec_uses *uses, ec_error *err) {
  size_t products = 0;
  if (m->has_jumps || m->chain_count != 1 || m->options.reference_kernels) return EC_OK;
  if (!ec_can_compare(m->tensor_count, m->tensor_count) ||
      !ec_can_compare(m->tensor_count, m->instr_count))
    return EC_OK;
  for (size_t i = 0; i < m->instr_count; i++) products += is_product(&m->instrs[i]);
  if (products < 2) return EC_OK;
  ec_find_elided_views(uses);
  for (size_t i = 0; i < m->instr_count; i++) {
    chain c = {.uses = uses, .instrs = m->instrs, .first = i, .last = i};
    if (!is_product(&m->instrs[i]) || !match_chain(&c)) continue;
    EC_TRY(make_call(&c, err));
    if (c.safe) fuse_chain(m, c.first);
  }
  return EC_OK;
}

void ec_fuse_attention(const ec_method *m) {
  for (size_t i = 0; i < m->instr_count; i++) {
    const ec_instr *call = m->instrs[i].attention;
    bool claimed = !call || m->instrs[i].fusion == call;
    for (size_t k = i; !claimed && k < call->destination; k++) claimed = m->instrs[k].claimed;
    if (!claimed) fuse_chain(m, i);
  }
}
