/* Operators of payloads that become several calls. */
#include "special.h"

#include <math.h>

#include "../translate.h"
#include "arrays.h"

uint32_t ecn_call_matmul(const ecn_step *s) {
  ecn_array a, b, product;
  EC_BACKEND_TRY(ecn_argument(s, 0, &a));
  EC_BACKEND_TRY(ecn_argument(s, 1, &b));
  EC_BACKEND_TRY(ecn_matmul(s, a, b, &product));
  return ecn_return(s, &product);
}

/* ---- attention ------------------------------------------------------------------------------- */

/* Arguments of scaled_dot_product_attention. */
enum { QUERY, KEY, VALUE, MASK, DROPOUT, IS_CAUSAL, SCALE, ENABLE_GQA, ARGUMENTS };

/* Adds a constant with one element. */
static int64_t add_number(const ecn_step *s, int32_t dtype, double number) {
  const ect_tensor t = {.dtype = dtype};
  int64_t value = 0;
  void *data = ect_add_owned(&s->g->program, &t, ECT_CONSTANT, &value);
  const float single = (float)number;
  if (data && dtype == EC_DTYPE_FLOAT64) memcpy(data, &number, sizeof number);
  else if (data) memcpy(data, &single, sizeof single);
  return value;
}

/* Replaces elements where a mask is False. */
static uint32_t fill(const ecn_step *s, ecn_array *a, const ecn_array *mask, double number) {
  const int64_t args[] = {mask->value, a->value, add_number(s, a->t.dtype, number)};
  ecn_array out = *a;
  EC_BACKEND_TRY(ecn_call(s, "aten::where.self_out", args, 3, &out));
  *a = out;
  return EC_BACKEND_OK;
}

/* The mask of a causal attention: query i sees the keys 0 to i. Its sizes are those of a call. */
static uint32_t causal_mask(const ecn_step *s, const ecn_array *scores, ecn_array *mask) {
  ect_program *p = &s->g->program;
  const uint32_t rank = scores->t.rank;
  const ecn_size sizes[] = {ecn_size_of(scores, rank - 2), ecn_size_of(scores, rank - 1)};
  ecn_array ones = {.t.dtype = EC_DTYPE_BOOL};
  ecn_set_shape(&ones.t, sizes, 2);
  *mask = ones;
  const int64_t all[] = {ecn_size_list(s, sizes, 2), ect_add_bool(p, true)};
  EC_BACKEND_TRY(ecn_call(s, "aten::full.out", all, 2, &ones));
  const int64_t lower[] = {ones.value, ect_add_int(p, 0)};
  return ecn_call(s, "aten::tril.out", lower, 2, mask);
}

/* Adds a mask of floats to the scores. */
static uint32_t add_mask(const ecn_step *s, ecn_array *scores, ecn_array mask) {
  ecn_array out = *scores;
  ecn_convert(s, &mask, scores->t.dtype);
  const int64_t args[] = {scores->value, mask.value};
  EC_BACKEND_TRY(ecn_call(s, "aten::add.out", args, 2, &out));
  *scores = out;
  return EC_BACKEND_OK;
}

/* Turns scores into weights. Those of a query that a mask of bools hides all keys from are 0. */
static uint32_t softmax(const ecn_step *s, ecn_array *scores) {
  ect_program *p = &s->g->program;
  const bool is_causal = ect_value_at(p, s->args[IS_CAUSAL])->as.b;
  const bool is_masked = ect_value_at(p, s->args[MASK])->kind != ECT_NONE;
  ecn_array mask = {.value = ECT_NO_VALUE};
  if (is_causal && is_masked) return ECN_REFUSE(s, "a mask, and is_causal");
  if (is_causal) EC_BACKEND_TRY(causal_mask(s, scores, &mask));
  else if (is_masked) EC_BACKEND_TRY(ecn_argument(s, MASK, &mask));
  const bool hides = mask.value != ECT_NO_VALUE && mask.t.dtype == EC_DTYPE_BOOL;
  if (hides) EC_BACKEND_TRY(fill(s, scores, &mask, -INFINITY));
  else if (is_masked) EC_BACKEND_TRY(add_mask(s, scores, mask));
  ecn_array weights = *scores;
  const int64_t args[] = {scores->value, ect_add_int(p, -1), ect_add_bool(p, false)};
  EC_BACKEND_TRY(ecn_call(s, "aten::_softmax.out", args, 3, &weights));
  *scores = weights;
  return hides && !is_causal ? fill(s, scores, &mask, 0) : (uint32_t)EC_BACKEND_OK;
}

/* Gives each head of the queries its head of keys or values: consecutive ones share it. */
static uint32_t repeat_heads(const ecn_step *s, const ecn_array *query, ecn_array *a) {
  const uint32_t rank = a->t.rank, head = rank - 3;
  ecn_size sizes[ECT_MAX_RANK + 1];
  if (rank < 3 || rank == ECT_MAX_RANK || query->t.rank != rank)
    return ECN_REFUSE(s, "grouped queries need heads");
  const int64_t heads = query->t.sizes[head], own = a->t.sizes[head];
  if (heads == own) return EC_BACKEND_OK;
  if (own < 1 || heads % own) return ECN_REFUSE(s, "the heads of keys do not divide the queries'");
  for (uint32_t d = 0; d < rank; d++) sizes[d + (d > head)] = ecn_size_of(a, d);
  sizes[head + 1] = ecn_size_number(1);
  EC_BACKEND_TRY(ecn_view(s, a, sizes, rank + 1));
  sizes[head + 1] = ecn_size_number(heads / own);
  EC_BACKEND_TRY(ecn_expand(s, a, sizes, rank + 1));
  sizes[head] = ecn_size_number(heads);
  memmove(&sizes[head + 1], &sizes[head + 2], 2 * sizeof *sizes);
  return ecn_view(s, a, sizes, rank);
}

/* Reads a tensor as one of floats with at least 32 bits. */
static uint32_t read_floats(const ecn_step *s, size_t i, ecn_array *out) {
  EC_BACKEND_TRY(ecn_argument(s, i, out));
  const int32_t dtype = out->t.dtype;
  if (out->t.rank < 2 || (dtype != EC_DTYPE_FLOAT64 && dtype != EC_DTYPE_FLOAT32 &&
                          dtype != EC_DTYPE_FLOAT16 && dtype != EC_DTYPE_BFLOAT16))
    return ECN_REFUSE(s, "argument %zu is not a tensor of floats with at least 2 dimensions", i);
  if (dtype != EC_DTYPE_FLOAT64) ecn_convert(s, out, EC_DTYPE_FLOAT32);
  return EC_BACKEND_OK;
}

/* Multiplies queries by the scale: a number, or 1 / sqrt(their width). */
static uint32_t scale(const ecn_step *s, ecn_array *query) {
  ect_program *p = &s->g->program;
  const ect_value *given = ect_value_at(p, s->args[SCALE]);
  const int64_t width = query->t.sizes[query->t.rank - 1];
  const double number = given->kind == ECT_DOUBLE ? given->as.d : 1 / sqrt((double)width);
  if (given->kind != ECT_DOUBLE && given->kind != ECT_NONE)
    return ECN_REFUSE(s, "the scale is not a number");
  const int64_t args[] = {query->value, ect_add_double(p, number)};
  ecn_array out = *query;
  EC_BACKEND_TRY(ecn_call(s, "aten::mul.Scalar_out", args, 2, &out));
  *query = out;
  return EC_BACKEND_OK;
}

uint32_t ecn_call_attention(const ecn_step *s) {
  ect_program *p = &s->g->program;
  ecn_array q, k, v, scores, out;
  if (s->count != ARGUMENTS) return ECN_REFUSE(s, "expected %d arguments", ARGUMENTS);
  EC_BACKEND_TRY(read_floats(s, QUERY, &q));
  EC_BACKEND_TRY(read_floats(s, KEY, &k));
  EC_BACKEND_TRY(read_floats(s, VALUE, &v));
  const ect_value dropout = *ect_value_at(p, s->args[DROPOUT]);
  const ect_value gqa = *ect_value_at(p, s->args[ENABLE_GQA]);
  if (dropout.kind != ECT_DOUBLE || dropout.as.d != 0)
    return ECN_REFUSE(s, "dropout is not supported");
  if (ect_value_at(p, s->args[IS_CAUSAL])->kind != ECT_BOOL || gqa.kind != ECT_BOOL)
    return ECN_REFUSE(s, "is_causal or enable_gqa is not a bool");
  if (gqa.as.b) EC_BACKEND_TRY(repeat_heads(s, &q, &k));
  if (gqa.as.b) EC_BACKEND_TRY(repeat_heads(s, &q, &v));
  EC_BACKEND_TRY(scale(s, &q));
  EC_BACKEND_TRY(ecn_transpose(s, &k));
  EC_BACKEND_TRY(ecn_matmul(s, q, k, &scores));
  EC_BACKEND_TRY(softmax(s, &scores));
  EC_BACKEND_TRY(ecn_matmul(s, scores, v, &out));
  return ecn_return(s, &out);
}
