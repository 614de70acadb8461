/* Each call's shape is computed as its kernel would. What is unusual is not an attention: the calls
 * run, and report their errors. */
#include "runtime/passes/attend_shapes.h"

#include <string.h>

#include "kernels/llm/chain.h"
#include "runtime/passes/fold.h"

enum {
  MIN_ROWS = 17,        /* of queries: the engine has another loop for fewer */
  MIN_SCORES = 1 << 17  /* smaller ones stay in the cache between calls */
};

/* True for a copy whose result has the shape of its operand, or that of an argument `size`. */
static bool is_copy(const ec_op *op) {
  return (op->numbers == EC_NUMBERS_SAME || op->makes_view) && op->nargs > 1 &&
         (op->args[1].keyword || strcmp(op->args[1].name, "size") == 0);
}

static bool has_terms(const ec_op *op, const char *terms) {
  return op->terms && strcmp(op->terms, terms) == 0;
}

/* True for mm and bmm. */
static bool is_product(const ec_op *op) {
  return op->work == EC_OP_PRODUCT && has_terms(op, "ROW") && op->nargs == 3;
}

ec_attention_role ec_attention_role_of(const ec_method *m, const ec_instr *in, size_t *out) {
  const ec_op *op = in->op;
  if (!op || op->custom || ec_is_folded(m, in)) return EC_CHAIN_OTHER;
  *out = op->nargs - 1;
  if (is_copy(op)) return EC_CHAIN_COPY;
  if (is_product(op)) return EC_CHAIN_PRODUCT;
  if (has_terms(op, "SOFTMAX")) return EC_CHAIN_SOFTMAX;
  if (op->nargs && strcmp(op->args[0].name, "condition") == 0) return EC_CHAIN_WHERE;
  switch ((ec_op_loop)op->loop) {
  case EC_LOOP_ADD: return op->args[1].type == EC_ARG_TENSOR ? EC_CHAIN_SUM : EC_CHAIN_OTHER;
  case EC_LOOP_MUL: return EC_CHAIN_FACTOR;
  case EC_LOOP_DIV: return EC_CHAIN_DIVISOR;
  default: return EC_CHAIN_OTHER;
  }
}

bool ec_attention_is_plain(const ec_value *v) {
  const ec_tensor *t = v->as.tensor;
  return v->kind == EC_KIND_TENSOR && t->dynamism != EC_DYNAMIC_UNBOUND &&
         t->dtype == EC_FLOAT32 && t->numel > 0 && ec_tensor_is_contiguous(t);
}

bool ec_attention_broadcasts(const ec_tensor *t, const ec_tensor *to) {
  if (t->rank > to->rank) return false;
  for (size_t i = 1; i <= t->rank; i++) {
    const int64_t size = t->sizes[t->rank - i];
    if (size != 1 && size != to->sizes[to->rank - i]) return false;
  }
  return true;
}

static bool has_shape(const ec_value *v, int64_t a, int64_t b, int64_t c) {
  return ec_attention_is_plain(v) &&
         ec_tensor_has_sizes(v->as.tensor, 3, (const int64_t[]){a, b, c});
}

/* True if the mask broadcasts to the scores as the engine reads it. */
static bool fits_mask(const struct ec_attention_parts *p, int64_t queries, int64_t keys) {
  const ec_tensor *t = p->mask->as.tensor, *scores = p->sum->args[3]->as.tensor;
  if (!ec_attention_is_plain(p->mask) || t->rank < 1 || !ec_attention_broadcasts(t, scores))
    return false;
  if (scores->rank < 3 || scores->rank > 4 || t->sizes[t->rank - 1] != keys) return false;
  return scores->sizes[scores->rank - 1] == keys && scores->sizes[scores->rank - 2] == queries;
}

bool ec_attention_has_shapes(const struct ec_attention_parts *p, int64_t *heads) {
  const ec_tensor *q = p->first->args[0]->as.tensor, *k = p->first->args[1]->as.tensor;
  const ec_tensor *scores = p->softmax->args[0]->as.tensor;
  if (!ec_attention_is_plain(p->first->args[0]) || q->rank != 3 || k->rank != 3) return false;
  const int64_t n = q->sizes[0], queries = q->sizes[1], dim = q->sizes[2], keys = k->sizes[2];
  const ec_tensor *sum = p->sum ? p->sum->args[3]->as.tensor : NULL;
  *heads = sum && sum->rank == 4 ? sum->sizes[1] : n;
  return queries >= MIN_ROWS && scores->numel >= MIN_SCORES && *heads > 0 &&
         n % *heads == 0 && scores->sizes[scores->rank - 1] == keys &&
         has_shape(p->first->args[1], n, dim, keys) &&
         has_shape(p->first->args[2], n, queries, keys) &&
         has_shape(p->last->args[0], n, queries, keys) &&
         has_shape(p->last->args[1], n, keys, dim) &&
         has_shape(p->last->args[2], n, queries, dim) && (!p->mask || fits_mask(p, queries, keys));
}

/* ---- a call with dynamic shapes -------------------------------------------------------------- */

static bool resize(const ec_value *out, size_t rank, const int64_t *sizes) {
  return ec_tensor_resize(out->as.tensor, rank, sizes, NULL) == EC_OK;
}

static bool resize_like(const ec_value *out, const ec_value *from) {
  return resize(out, from->as.tensor->rank, from->as.tensor->sizes);
}

static bool resize_product(const ec_instr *in) {
  const ec_tensor *a = in->args[0]->as.tensor, *b = in->args[1]->as.tensor;
  return a->rank == 3 && b->rank == 3 && a->sizes[0] == b->sizes[0] &&
         a->sizes[2] == b->sizes[1] &&
         resize(in->args[2], 3, (const int64_t[]){a->sizes[0], a->sizes[1], b->sizes[2]});
}

/* The sizes of an expansion that repeats nothing, or of a view. */
static bool resize_copy(ec_method *m, const ec_instr *in, size_t out) {
  ec_call call = {.args = in->args, .op = in->op, .scratch = &m->scratch, .method = m};
  const ec_tensor *from = in->args[0]->as.tensor;
  ec_ints sizes;
  int64_t numel;
  if (in->op->makes_view) return from->data && in->op->fn(&call) == EC_OK;
  if (in->op->args[1].keyword) return resize_like(in->args[out], in->args[0]);
  return ec_arg_ints(&call, 1, &sizes) == EC_OK && sizes.n <= EC_MAX_RANK &&
         ec_numel(sizes.v, sizes.n, &numel) && numel == from->numel &&
         (in->op->args[2].is_out || ec_tensor_has_sizes(from, sizes.n, sizes.v)) && /* expansion */
         resize(in->args[out], sizes.n, sizes.v);
}

static bool resize_sum(const struct ec_attention_parts *p) {
  const ec_instr *in = p->sum;
  const ec_value *scores = in->args[in->args[0] == p->mask];
  return ec_attention_broadcasts(p->mask->as.tensor, scores->as.tensor) &&
         resize_like(in->args[3], scores);
}

static bool resize_result(ec_method *m, const struct ec_attention_parts *p, const ec_instr *in) {
  size_t out = 0;
  const ec_attention_role role = ec_attention_role_of(m, in, &out);
  if (ec_is_folded(m, in)) return true;
  if (role == EC_CHAIN_PRODUCT) return resize_product(in);
  if (role == EC_CHAIN_COPY) return resize_copy(m, in, out);
  if (role == EC_CHAIN_SUM) return resize_sum(p);
  if (p->is_safe && in > p->softmax && in < p->softmax + EC_SAFE_CALLS)
    return role != EC_CHAIN_WHERE || resize_like(in->args[out], p->softmax->args[0]);
  return role != EC_CHAIN_OTHER && resize_like(in->args[out], in->args[0]);
}

static bool reads(const ec_instr *in, const ec_value *v) {
  for (size_t i = 0; i < in->read_count; i++)
    if (in->reads[i] == v) return true;
  return false;
}

/* True if a call may write to the memory of an operand, whatever its sizes are. */
static bool writes_to(const ec_method *m, const ec_instr *in, const ec_value *operand) {
  const ec_tensor *t = operand->as.tensor;
  const uintptr_t at = (uintptr_t)t->data;
  for (size_t i = 0; i < in->write_count && !ec_is_folded(m, in); i++) {
    const ec_tensor *w = in->writes[i]->as.tensor;
    const uintptr_t to = (uintptr_t)w->data;
    const size_t most = ec_placement_of(m, w)->nbytes;
    if (at < to + most && to < at + ec_tensor_nbytes(t)) return true;
  }
  return false;
}

/* True if the operand has its value when the first call reads it. */
static bool is_kept(const ec_method *m, const struct ec_attention_parts *p,
                    const ec_value *operand) {
  for (const ec_instr *in = p->first; in < p->last; in++) {
    if (writes_to(m, in, operand)) return false;
    if (reads(in, operand)) return true;
  }
  return true;
}

bool ec_attention_fits(ec_method *m, const ec_step *step) {
  const struct ec_attention_parts *p = step->parts;
  const ec_tensor *q = p->first->args[0]->as.tensor;
  int64_t heads = 0;
  bool fits = q->rank == 3 && q->sizes[1] >= MIN_ROWS && q->data && p->v->as.tensor->data;
  for (const ec_instr *in = p->first; fits && in <= p->last; in++) fits = resize_result(m, p, in);
  ec_arena_reset(&m->scratch);
  fits = fits && ec_attention_has_shapes(p, &heads) && is_kept(m, p, p->v) &&
         (!p->mask || is_kept(m, p, p->mask));
  if (fits) step->run->args[EC_CHAIN_HEADS]->as.i = heads;
  return fits;
}
