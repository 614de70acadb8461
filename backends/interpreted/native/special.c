/* Operators of payloads that become several calls. */
#include "special.h"

#include <math.h>

#include "../translate.h"

#define REFUSE(s, text) ect_refuse((s)->g, EC_BACKEND_NOT_SUPPORTED, text)

/* Adds a call with one result; only the last one of a node has its name. */
static uint32_t add_call(const ecn_step *s, const char *op, const int64_t *args, size_t count,
                         int64_t out, bool last) {
  return ect_call_op(s->g, op, args, count, &out, 1, last ? s->shown : NULL);
}

/* Copies the bounds of a tensor argument; fails if it is none, of rank 1 or less. */
static uint32_t read_tensor(const ecn_step *s, size_t i, ect_tensor *out) {
  const ect_tensor *t = i < s->count ? ect_tensor_at(&s->g->program, s->args[i]) : NULL;
  if (!t || t->rank < 2) return REFUSE(s, "an operand is not a tensor of 2 dimensions or more");
  *out = *t;
  return EC_BACKEND_OK;
}

static int64_t add_computed(const ecn_step *s, ect_tensor t) {
  t.role = ECT_COMPUTED;
  t.is_dynamic = true;
  return ect_add_tensor(&s->g->program, &t);
}

/* ---- matmul ---------------------------------------------------------------------------------- */

/* Multiplies by a matrix: linear takes it transposed. */
static uint32_t by_matrix(const ecn_step *s, ect_tensor b) {
  ect_program *p = &s->g->program;
  const int64_t turn[] = {s->args[1], ect_add_int(p, 0), ect_add_int(p, 1)};
  const int64_t rows = b.sizes[0];
  b.sizes[0] = b.sizes[1];
  b.sizes[1] = rows;
  const int64_t args[] = {s->args[0], add_computed(s, b)};
  EC_BACKEND_TRY(add_call(s, "aten::transpose_copy.int_out", turn, 3, args[1], false));
  return add_call(s, "aten::linear.out", args, 2, s->out, true);
}

/* Shows a tensor as [batch, rows, columns]; sets the value. */
static uint32_t as_batch(const ecn_step *s, ect_tensor t, int64_t *value) {
  ect_program *p = &s->g->program;
  const int64_t numbers[] = {-1, t.sizes[t.rank - 2], t.sizes[t.rank - 1]};
  const int64_t args[] = {*value, ect_add_ints(p, numbers, 3)};
  int64_t batch = 1;
  for (uint32_t d = 0; d + 2 < t.rank; d++)
    if (__builtin_mul_overflow(batch, t.sizes[d], &batch)) return REFUSE(s, "too many elements");
  const ect_tensor shown = {.dtype = t.dtype, .rank = 3, .sizes = {batch, numbers[1], numbers[2]}};
  *value = add_computed(s, shown);
  return add_call(s, "aten::view_copy.out", args, 2, *value, false);
}

/* Operands of the same batch: those of torch's matmul broadcast. */
static uint32_t by_batches(const ecn_step *s, ect_tensor a, ect_tensor b) {
  ect_program *p = &s->g->program;
  int64_t args[] = {s->args[0], s->args[1]};
  const ect_tensor out = *ect_tensor_at(p, s->out);
  for (uint32_t d = 0; d + 2 < a.rank; d++)
    if (a.sizes[d] != b.sizes[d]) return REFUSE(s, "the operands have other batches");
  if (a.rank == 3) return add_call(s, "aten::bmm.out", args, 2, s->out, true);
  EC_BACKEND_TRY(as_batch(s, a, &args[0]));
  EC_BACKEND_TRY(as_batch(s, b, &args[1]));
  ect_tensor product = *ect_tensor_at(p, args[0]);
  product.sizes[2] = b.sizes[b.rank - 1];
  const int64_t back[] = {add_computed(s, product), ect_add_ints(p, out.sizes, out.rank)};
  EC_BACKEND_TRY(add_call(s, "aten::bmm.out", args, 2, back[0], false));
  return add_call(s, "aten::view_copy.out", back, 2, s->out, true);
}

uint32_t ecn_call_matmul(const ecn_step *s) {
  ect_tensor a = {0}, b = {0};
  EC_BACKEND_TRY(read_tensor(s, 0, &a));
  EC_BACKEND_TRY(read_tensor(s, 1, &b));
  if (b.rank == 2) return by_matrix(s, b);
  if (a.rank != b.rank) return REFUSE(s, "the operands have other batches");
  return by_batches(s, a, b);
}

/* ---- attention ------------------------------------------------------------------------------- */

/* Adds a float32 constant, which the caller fills. */
static float *add_floats(const ecn_step *s, ect_tensor shape, int64_t *value) {
  shape.dtype = EC_DTYPE_FLOAT32;
  return ect_add_owned(&s->g->program, &shape, ECT_CONSTANT, value);
}

/* The mask of a causal attention: query i sees the keys 0 to i. */
static uint32_t causal_mask(const ecn_step *s, int64_t queries, int64_t keys, int64_t *mask) {
  enum { MAX_POSITIONS = 1 << 13 };
  if (queries > MAX_POSITIONS || keys > MAX_POSITIONS)
    return REFUSE(s, "a causal mask of more than 8192 positions");
  float *data = add_floats(s, (ect_tensor){.rank = 2, .sizes = {queries, keys}}, mask);
  if (!data) return ect_refuse(s->g, EC_BACKEND_ALLOCATION_FAILED, "no memory");
  for (int64_t i = 0; i < queries; i++)
    for (int64_t k = i + 1; k < keys; k++) data[i * keys + k] = -INFINITY;
  return EC_BACKEND_OK;
}

/* Turns a mask of bools, where True is seen, into one that is added. */
static uint32_t additive_mask(const ecn_step *s, int64_t *mask) {
  const ect_tensor *bools = ect_tensor_at(&s->g->program, *mask);
  int64_t args[] = {*mask, 0, 0};
  if (!bools || bools->dtype != EC_DTYPE_BOOL) return EC_BACKEND_OK;
  ect_tensor t = *bools;
  float *zero = add_floats(s, (ect_tensor){0}, &args[1]);
  float *hidden = add_floats(s, (ect_tensor){0}, &args[2]);
  if (!zero || !hidden) return ect_refuse(s->g, EC_BACKEND_ALLOCATION_FAILED, "no memory");
  *hidden = -INFINITY;
  t.dtype = EC_DTYPE_FLOAT32;
  *mask = add_computed(s, t);
  return add_call(s, "aten::where.self_out", args, 3, *mask, false);
}

/* Query, key, value, attn_mask, dropout_p, is_causal, scale, enable_gqa. */
uint32_t ecn_call_attention(const ecn_step *s) {
  ect_program *p = &s->g->program;
  ect_tensor q = {0}, k = {0};
  if (s->count != 8) return REFUSE(s, "expected 8 arguments");
  EC_BACKEND_TRY(read_tensor(s, 0, &q));
  EC_BACKEND_TRY(read_tensor(s, 1, &k));
  const ect_value dropout = *ect_value_at(p, s->args[4]), causal = *ect_value_at(p, s->args[5]);
  const ect_value gqa = *ect_value_at(p, s->args[7]);
  if (dropout.kind != ECT_DOUBLE || dropout.as.d != 0 || causal.kind != ECT_BOOL ||
      gqa.kind != ECT_BOOL || gqa.as.b)
    return REFUSE(s, "dropout and grouped queries are not supported");
  int64_t mask = s->args[3];
  if (causal.as.b) EC_BACKEND_TRY(causal_mask(s, q.sizes[q.rank - 2], k.sizes[k.rank - 2], &mask));
  else EC_BACKEND_TRY(additive_mask(s, &mask));
  const int64_t args[] = {s->args[0], s->args[1], s->args[2], mask, s->args[6]};
  return add_call(s, "et_vk::sdpa.out", args, 5, s->out, true);
}
