/* Products of matrices, attention, normalisations. */
#include <math.h>
#include <string.h>

#include "special.h"

/* ---- products -------------------------------------------------------------------------------- */

static uint32_t transpose_last(ecm_node *n, int64_t *id, ect_tensor *t) {
  int64_t perm[ECT_MAX_RANK], last;
  if (t->rank < 2) return ecm_refuse(n, "an operand does not have 2 dimensions");
  for (uint32_t d = 0; d < t->rank; d++) perm[d] = d;
  perm[t->rank - 1] = t->rank - 2;
  perm[t->rank - 2] = t->rank - 1;
  last = t->sizes[t->rank - 1];
  t->sizes[t->rank - 1] = t->sizes[t->rank - 2];
  t->sizes[t->rank - 2] = last;
  const int64_t args[] = {*id, ect_add_ints(&n->g->program, perm, t->rank)};
  *id = ecm_add_like(n, t, t->dtype);
  return ecm_call_op(n, "aten::permute_copy.out", args, 2, id, 1, false);
}

/* Views an operand or result of more dimensions as three. */
static uint32_t as_three(ecm_node *n, const ect_tensor *t, ect_tensor *three) {
  *three = (ect_tensor){.dtype = t->dtype, .rank = 3, .sizes = {1}};
  for (uint32_t d = 0; d + 2 < t->rank; d++)
    if (__builtin_mul_overflow(three->sizes[0], t->sizes[d], &three->sizes[0]))
      return ecm_refuse(n, "an operand is too large");
  three->sizes[1] = t->sizes[t->rank - 2];
  three->sizes[2] = t->sizes[t->rank - 1];
  return EC_BACKEND_OK;
}

/* Expands an operand to the batch of the result, and views it as three dimensions. */
static uint32_t to_batch(ecm_node *n, const ect_tensor *result, const ect_tensor *operand,
                         int64_t *id, ect_tensor *three) {
  ect_program *p = &n->g->program;
  ect_tensor t = *result;
  bool same = operand->rank == result->rank;
  if (operand->rank < 2) return ecm_refuse(n, "an operand does not have 2 dimensions");
  for (uint32_t d = 0; d < 2; d++)
    t.sizes[t.rank - 1 - d] = operand->sizes[operand->rank - 1 - d];
  for (uint32_t d = 0; same && d < t.rank; d++) same = t.sizes[d] == operand->sizes[d];
  const int64_t expand[] = {*id, ect_add_ints(p, t.sizes, t.rank)};
  if (!same) EC_BACKEND_TRY(ecm_step(n, "aten::expand_copy.out", expand, 2, &t, id));
  EC_BACKEND_TRY(as_three(n, &t, three));
  if (t.rank == 3) return EC_BACKEND_OK;
  const int64_t view[] = {*id, ect_add_ints(p, three->sizes, 3)};
  return ecm_step(n, "aten::view_copy.out", view, 2, three, id);
}

/* Adds the product of two operands, whose batches are broadcast to the result's. */
static uint32_t multiply(ecm_node *n, const int64_t *ids, const ect_tensor *types,
                         const ect_tensor *result, const int64_t *out, bool is_shown) {
  ect_program *p = &n->g->program;
  int64_t args[2];
  ect_tensor three[2], product;
  for (size_t i = 0; i < 2; i++) {
    args[i] = ids[i];
    EC_BACKEND_TRY(to_batch(n, result, &types[i], &args[i], &three[i]));
  }
  if (result->rank == 3) return ecm_call_op(n, "aten::bmm.out", args, 2, out, 1, is_shown);
  EC_BACKEND_TRY(as_three(n, result, &product));
  EC_BACKEND_TRY(ecm_step(n, "aten::bmm.out", args, 2, &product, &args[0]));
  args[1] = ect_add_ints(p, result->sizes, result->rank);
  return ecm_call_op(n, "aten::view_copy.out", args, 2, out, 1, is_shown);
}

uint32_t ecm_call_matmul(ecm_node *n) {
  int64_t args[2];
  ect_tensor t[2];
  static const char *const names[] = {"x", "y"}, *const flags[] = {"transpose_x", "transpose_y"};
  double flag = 0;
  for (size_t i = 0; i < 2; i++) {
    EC_BACKEND_TRY(ecm_typed(n, names[i], &args[i], &t[i]));
    EC_BACKEND_TRY(ecm_number(n, flags[i], 0, &flag));
    if (flag != 0) EC_BACKEND_TRY(transpose_last(n, &args[i], &t[i]));
  }
  const ect_tensor *out = &n->type;
  if (out->rank < 2) return ecm_refuse(n, "the result does not have 2 dimensions");
  if (out->rank == 2 && t[0].rank == 2 && t[1].rank == 2)
    return ecm_finish(n, "aten::mm.out", args, 2);
  if (out->rank == 3 && t[0].rank == 3 && t[1].rank == 3 && n->unknown)
    return ecm_finish(n, "aten::bmm.out", args, 2);
  if (n->unknown) return ecm_refuse(n, "more than 3 dimensions, some of them unknown");
  return multiply(n, args, t, out, &n->result, true);
}

/* Adds a float mask to scores, or -infinity where a bool one is false. */
static uint32_t add_mask(ecm_node *n, const ect_tensor *scores, int64_t *id) {
  ect_program *p = &n->g->program;
  const ect_operand *mask = NULL;
  int64_t mask_id = 0;
  EC_BACKEND_TRY(ecm_argument(n, "attn_mask", &mask));
  if (!mask) return EC_BACKEND_OK;
  const bool is_bool = mask->dtype == ECM_BOOL;
  EC_BACKEND_TRY(ecm_use(n, mask, &mask_id));
  if (!is_bool) {
    const int64_t args[] = {*id, mask_id, ect_add_int(p, 1)};
    return ecm_step(n, "aten::add.out", args, 3, scores, id);
  }
  const float low = -INFINITY;
  const uint16_t half = 0xfc00;
  const bool is_half = scores->dtype == EC_DTYPE_FLOAT16;
  const ect_tensor scalar = {.dtype = scores->dtype};
  int64_t args[] = {mask_id, *id, 0};
  void *item = ect_add_owned(p, &scalar, ECT_CONSTANT, &args[2]);
  if (!item) return ecm_refuse(n, "no memory for a mask");
  memcpy(item, is_half ? (const void *)&half : &low, is_half ? sizeof half : sizeof low);
  return ecm_step(n, "aten::where.self_out", args, 3, scores, id);
}

uint32_t ecm_call_attention(ecm_node *n) {
  static const char *const names[] = {"query", "key", "value"};
  ect_program *p = &n->g->program;
  int64_t ids[3], weights = 0;
  ect_tensor t[3], scores, query;
  for (size_t i = 0; i < 3; i++) {
    EC_BACKEND_TRY(ecm_typed(n, names[i], &ids[i], &t[i]));
    if (t[i].rank < 3) return ecm_refuse(n, "an operand does not have 3 dimensions");
  }
  if (n->unknown || n->type.rank < 3)
    return ecm_refuse(n, "the shape of the result is unknown");
  query = t[0];
  scores = n->type;
  scores.sizes[scores.rank - 1] = t[1].sizes[t[1].rank - 2];
  const double width = (double)t[0].sizes[t[0].rank - 1];
  const int64_t scale[] = {ids[0], ect_add_double(p, 1 / sqrt(width))};
  EC_BACKEND_TRY(ecm_step(n, "aten::mul.Scalar_out", scale, 2, &query, &ids[0]));
  EC_BACKEND_TRY(transpose_last(n, &ids[1], &t[1]));
  weights = ecm_add_like(n, &scores, scores.dtype);
  EC_BACKEND_TRY(multiply(n, ids, t, &scores, &weights, false));
  EC_BACKEND_TRY(add_mask(n, &scores, &weights));
  const int64_t softmax[] = {weights, ect_add_int(p, -1), ect_add_bool(p, false)};
  EC_BACKEND_TRY(ecm_step(n, "aten::_softmax.out", softmax, 3, &scores, &weights));
  const int64_t last[] = {weights, ids[2]};
  const ect_tensor types[] = {scores, t[2]};
  return multiply(n, last, types, &n->type, &n->result, true);
}

/* ---- normalisations -------------------------------------------------------------------------- */

/* Reads optional tensors: gamma and beta. */
static uint32_t read_affine(ecm_node *n, int64_t *out) {
  static const char *const names[] = {"gamma", "beta"};
  for (size_t i = 0; i < 2; i++) {
    const ect_operand *v = NULL;
    EC_BACKEND_TRY(ecm_argument(n, names[i], &v));
    out[i] = ect_add_none(&n->g->program);
    if (v) EC_BACKEND_TRY(ecm_use(n, v, &out[i]));
  }
  return EC_BACKEND_OK;
}

uint32_t ecm_call_batch_norm(ecm_node *n) {
  ect_program *p = &n->g->program;
  int64_t args[7];
  double epsilon = 0;
  EC_BACKEND_TRY(ecm_input(n, "x", &args[0]));
  EC_BACKEND_TRY(read_affine(n, &args[1]));
  EC_BACKEND_TRY(ecm_input(n, "mean", &args[3]));
  EC_BACKEND_TRY(ecm_input(n, "variance", &args[4]));
  EC_BACKEND_TRY(ecm_number(n, "epsilon", 1e-5, &epsilon));
  args[5] = ect_add_double(p, 0);
  args[6] = ect_add_double(p, epsilon);
  const ect_tensor none = {.dtype = n->type.dtype, .rank = 1};
  const int64_t outs[] = {n->result, ecm_add_like(n, &none, none.dtype),
                          ecm_add_like(n, &none, none.dtype)};
  return ecm_call_op(n, "aten::_native_batch_norm_legit_no_training.out", args, 7, outs, 3, true);
}

/* Every channel is a group. */
uint32_t ecm_call_instance_norm(ecm_node *n) {
  ect_program *p = &n->g->program;
  int64_t args[8], inner = 1;
  ect_tensor x;
  double epsilon = 0;
  EC_BACKEND_TRY(ecm_typed(n, "x", &args[0], &x));
  if (x.rank < 3 || n->unknown) return ecm_refuse(n, "x is not of 3 or more known dimensions");
  EC_BACKEND_TRY(read_affine(n, &args[1]));
  EC_BACKEND_TRY(ecm_number(n, "epsilon", 1e-5, &epsilon));
  for (uint32_t d = 2; d < x.rank; d++)
    if (__builtin_mul_overflow(inner, x.sizes[d], &inner)) return ecm_refuse(n, "x is too large");
  const int64_t numbers[] = {x.sizes[0], x.sizes[1], inner, x.sizes[1]};
  for (size_t i = 0; i < 4; i++) args[3 + i] = ect_add_int(p, numbers[i]);
  args[7] = ect_add_double(p, epsilon);
  const ect_tensor groups = {.dtype = x.dtype, .rank = 2, .sizes = {x.sizes[0], x.sizes[1]}};
  const int64_t outs[] = {n->result, ecm_add_like(n, &groups, x.dtype),
                          ecm_add_like(n, &groups, x.dtype)};
  return ecm_call_op(n, "aten::native_group_norm.out", args, 8, outs, 3, true);
}

uint32_t ecm_call_layer_norm(ecm_node *n) {
  ect_program *p = &n->g->program;
  int64_t args[5], axes[ECT_MAX_RANK];
  ect_tensor x;
  size_t count = 0;
  double epsilon = 0;
  EC_BACKEND_TRY(ecm_typed(n, "x", &args[0], &x));
  EC_BACKEND_TRY(ecm_numbers(n, "axes", axes, ECT_MAX_RANK, &count));
  for (size_t i = 0; i < count; i++) {
    const int64_t axis = axes[i] < 0 ? axes[i] + x.rank : axes[i];
    if (count > x.rank || axis != (int64_t)(x.rank - count + i))
      return ecm_refuse(n, "axes are not the last ones");
  }
  if (!count) count = x.rank;
  args[1] = ect_add_ints(p, x.sizes + x.rank - count, count);
  EC_BACKEND_TRY(read_affine(n, &args[2]));
  EC_BACKEND_TRY(ecm_number(n, "epsilon", 1e-5, &epsilon));
  args[4] = ect_add_double(p, epsilon);
  ect_tensor one = x;
  for (size_t i = x.rank - count; i < x.rank; i++) one.sizes[i] = 1;
  const int64_t outs[] = {n->result, ecm_add_like(n, &one, x.dtype),
                          ecm_add_like(n, &one, x.dtype)};
  return ecm_call_op(n, "aten::native_layer_norm.out", args, 5, outs, 3, true);
}
