/* Products, normalisation, attention, convolutions. */
#include <string.h>

#include "../rows.h"
#include "special.h"

/* ---- products -------------------------------------------------------------------------------- */

/* Makes a type that of a product: batches broadcast, then rows and columns, which vectors lack. */
static void product_type(ect_tensor *t, const ect_tensor *a, const ect_tensor *b, int64_t columns,
                         bool has_columns) {
  const int64_t rows = a->rank > 1 ? a->sizes[a->rank - 2] : 0;
  ect_tensor other = emx_like(b, b->dtype);
  *t = emx_like(a, a->dtype);
  t->rank = a->rank > 2 ? a->rank - 2 : 0;
  other.rank = b->rank > 2 ? b->rank - 2 : 0;
  emx_broadcast(t, &other);
  t->is_dynamic = a->is_dynamic || b->is_dynamic;
  if (a->rank > 1) t->sizes[t->rank++] = rows;
  if (has_columns) t->sizes[t->rank++] = columns;
}

static uint32_t check_product(const emx_call *c, const ect_tensor *a, const ect_tensor *b) {
  return a->rank && b->rank ? (uint32_t)EC_BACKEND_OK
                            : EMX_INVALID(c, "an operand has no dimensions");
}

uint32_t emx_call_addmm(const emx_call *c) {
  ect_program *p = &c->g->program;
  int64_t args[5];
  ect_tensor a, b, bias, t;
  EC_BACKEND_TRY(emx_tensor(c, "mat1", &args[0], &a));
  EC_BACKEND_TRY(emx_tensor(c, "mat2", &args[1], &b));
  EC_BACKEND_TRY(emx_optional(c, "bias", &args[2], &bias));
  EC_BACKEND_TRY(check_product(c, &a, &b));
  args[3] = ect_add_double(p, emx_double(c, "alpha", 1));
  args[4] = ect_add_double(p, emx_double(c, "beta", 1));
  product_type(&t, &a, &b, b.sizes[b.rank - 1], b.rank > 1);
  t.dtype = emx_promote(a.dtype, b.dtype);
  if (bias.dtype >= 0) t.dtype = emx_promote(t.dtype, bias.dtype);
  return emx_finish(c, "mlx::addmm.out", args, 5, &t);
}

/* Replaces the batch of a type by the shape of indices. */
static ect_tensor with_batch(const ect_tensor *t, const ect_tensor *indices) {
  ect_tensor out = *t;
  const uint32_t kept = t->rank < 2 ? t->rank : 2;
  if (indices->dtype < 0 || indices->rank + kept > ECT_MAX_RANK) return out;
  memcpy(out.sizes, indices->sizes, indices->rank * sizeof *out.sizes);
  memcpy(&out.sizes[indices->rank], &t->sizes[t->rank - kept], kept * sizeof *out.sizes);
  out.rank = indices->rank + kept;
  out.is_dynamic |= indices->is_dynamic;
  return out;
}

static uint32_t check_indices(const emx_call *c, const ect_tensor *indices) {
  return indices->dtype < 0 || indices->rank + 2 <= ECT_MAX_RANK
             ? (uint32_t)EC_BACKEND_OK
             : EMX_REFUSE(c, "more than %d dimensions", ECT_MAX_RANK);
}

uint32_t emx_call_gather_mm(const emx_call *c) {
  int64_t args[4];
  ect_tensor a, b, lhs, rhs, t;
  EC_BACKEND_TRY(emx_tensor(c, "a", &args[0], &a));
  EC_BACKEND_TRY(emx_tensor(c, "b", &args[1], &b));
  EC_BACKEND_TRY(emx_optional(c, "lhs_indices", &args[2], &lhs));
  EC_BACKEND_TRY(emx_optional(c, "rhs_indices", &args[3], &rhs));
  EC_BACKEND_TRY(check_product(c, &a, &b));
  EC_BACKEND_TRY(check_indices(c, &lhs));
  EC_BACKEND_TRY(check_indices(c, &rhs));
  const int32_t dtype = emx_promote(a.dtype, b.dtype);
  a = with_batch(&a, &lhs);
  b = with_batch(&b, &rhs);
  product_type(&t, &a, &b, b.sizes[b.rank - 1], b.rank > 1);
  t.dtype = dtype;
  return emx_finish(c, "mlx::gather_mm.out", args, 4, &t);
}

/* The arguments of a packed weight: w, scales, biases; group_size, bits, mode from `next` on. */
static uint32_t read_packed(const emx_call *c, int64_t *args, int64_t *next, ect_tensor *w,
                            ect_tensor *scales, bool *is_affine) {
  ect_program *p = &c->g->program;
  const uint32_t mode = emx_find(c, "mode");
  int64_t group, bits;
  ect_tensor biases;
  EC_BACKEND_TRY(emx_tensor(c, "w", &args[0], w));
  EC_BACKEND_TRY(emx_tensor(c, "scales", &args[1], scales));
  EC_BACKEND_TRY(emx_optional(c, "biases", &args[2], &biases));
  EC_BACKEND_TRY(emx_literal(c, "group_size", 0, &group));
  EC_BACKEND_TRY(emx_literal(c, "bits", 0, &bits));
  if (mode == ECT_ABSENT) return EMX_INVALID(c, "no field 'mode'");
  const ect_operand *text = &c->g->operands[mode];
  *is_affine = ect_text_is((ect_text){text->data, text->data_size}, "affine");
  EC_BACKEND_TRY(ect_use(c->g, mode, &next[2]));
  if (bits < 2 || bits > 8 || w->dtype != EC_DTYPE_UINT32 || !w->rank)
    return EMX_REFUSE(c, "%lld bits in %s, expected 2 to 8 in uint32", (long long)bits,
                      ec_backend_dtype_name(w->dtype));
  next[0] = ect_add_int(p, group);
  next[1] = ect_add_int(p, bits);
  int64_t *width = &w->sizes[w->rank - 1];
  if (*width >= 0 && *width < INT64_MAX / 32) *width = *width * 32 / bits;
  return EC_BACKEND_OK;
}

uint32_t emx_call_quantized_matmul(const emx_call *c) {
  const bool transpose = emx_bool(c, "transpose", true);
  int64_t args[10];
  bool is_affine = false;
  ect_tensor x, w, scales, lhs, rhs, t;
  EC_BACKEND_TRY(emx_tensor(c, "x", &args[0], &x));
  EC_BACKEND_TRY(read_packed(c, &args[1], &args[6], &w, &scales, &is_affine));
  EC_BACKEND_TRY(emx_optional(c, "lhs_indices", &args[4], &lhs));
  EC_BACKEND_TRY(emx_optional(c, "rhs_indices", &args[5], &rhs));
  if (!x.rank || w.rank < 2) return EMX_INVALID(c, "an operand has too few dimensions");
  EC_BACKEND_TRY(check_indices(c, &lhs));
  EC_BACKEND_TRY(check_indices(c, &rhs));
  const int32_t dtype = is_affine ? emx_promote(x.dtype, scales.dtype) : x.dtype;
  const int64_t columns = w.sizes[w.rank - (transpose ? 2 : 1)];
  args[9] = ect_add_bool(&c->g->program, transpose);
  x = with_batch(&x, &lhs);
  w = with_batch(&w, &rhs);
  product_type(&t, &x, &w, columns, true);
  t.dtype = dtype;
  return emx_finish(c, "mlx::quantized_matmul.out", args, 10, &t);
}

uint32_t emx_call_dequantize(const emx_call *c) {
  int64_t args[7], dtype;
  bool is_affine = false;
  ect_tensor w, scales, global;
  EC_BACKEND_TRY(read_packed(c, args, &args[4], &w, &scales, &is_affine));
  EC_BACKEND_TRY(emx_optional(c, "global_scale", &args[3], &global));
  const int32_t otherwise = is_affine ? scales.dtype : EC_DTYPE_BFLOAT16;
  EC_BACKEND_TRY(emx_literal(c, "dtype",
                             emx_find(c, "dtype") == ECT_ABSENT ? otherwise : EC_DTYPE_UINT8,
                             &dtype));
  w.dtype = emx_float((int32_t)dtype);
  if (w.dtype != dtype) return EMX_INVALID(c, "ScalarType %lld of a result", (long long)dtype);
  return emx_finish(c, "mlx::dequantize.out", args, 7, &w);
}

/* ---- normalisation, rotation, attention ------------------------------------------------------ */

uint32_t emx_call_norm(const emx_call *c) {
  ect_program *p = &c->g->program;
  int64_t args[5];
  ect_tensor x, weight, bias;
  EC_BACKEND_TRY(emx_tensor(c, "x", &args[0], &x));
  EC_BACKEND_TRY(emx_optional(c, "weight", &args[1], &weight));
  EC_BACKEND_TRY(emx_optional(c, "bias", &args[2], &bias));
  args[3] = ect_add_double(p, emx_double(c, "eps", 0));
  args[4] = ect_add_bool(p, ect_text_is(c->n->op, "LayerNorm"));
  if (weight.dtype >= 0) x.dtype = emx_promote(x.dtype, weight.dtype);
  if (bias.dtype >= 0) x.dtype = emx_promote(x.dtype, bias.dtype);
  return emx_finish(c, "mlx::norm.out", args, 5, &x);
}

uint32_t emx_call_rope(const emx_call *c) {
  ect_program *p = &c->g->program;
  const uint32_t offset = emx_find(c, "offset");
  int64_t args[8], dims;
  ect_tensor x, freqs, offsets;
  EC_BACKEND_TRY(emx_tensor(c, "x", &args[0], &x));
  EC_BACKEND_TRY(emx_optional(c, "freqs", &args[1], &freqs));
  EC_BACKEND_TRY(emx_literal(c, "dims", 0, &dims));
  if (offset == ECT_ABSENT) return EMX_INVALID(c, "no field 'offset'");
  const bool is_tensor = c->g->operands[offset].kind == ECT_TENSOR;
  if (is_tensor) EC_BACKEND_TRY(ect_use_tensor(c->g, offset, &args[2], &offsets));
  else EC_BACKEND_TRY(ect_use(c->g, offset, &args[3]));
  if (is_tensor) args[3] = ect_add_int(p, 0);
  else args[2] = ect_add_none(p);
  args[4] = ect_add_int(p, dims);
  args[5] = ect_add_bool(p, emx_bool(c, "traditional", false));
  args[6] = ect_add_double(p, emx_double(c, "base", 500000));
  args[7] = ect_add_double(p, emx_double(c, "scale", 1));
  return emx_finish(c, "mlx::rope.out", args, 8, &x);
}

uint32_t emx_call_sdpa(const emx_call *c) {
  ect_program *p = &c->g->program;
  int64_t args[6];
  ect_tensor q, k, v, mask;
  EC_BACKEND_TRY(emx_tensor(c, "q", &args[0], &q));
  EC_BACKEND_TRY(emx_tensor(c, "k", &args[1], &k));
  EC_BACKEND_TRY(emx_tensor(c, "v", &args[2], &v));
  EC_BACKEND_TRY(emx_optional(c, "mask", &args[3], &mask));
  args[4] = ect_add_double(p, emx_double(c, "scale", 0));
  args[5] = ect_add_bool(p, emx_bool(c, "causal", false));
  if (q.rank != 4 || v.rank != 4) return EMX_INVALID(c, "'q' or 'v' has not four dimensions");
  q.dtype = emx_promote(emx_promote(q.dtype, k.dtype), v.dtype);
  q.sizes[3] = v.sizes[3];
  q.is_dynamic |= v.is_dynamic;
  return emx_finish(c, "mlx::sdpa.out", args, 6, &q);
}

/* The cache is the method's, not the graph's. */
uint32_t emx_call_update_and_attend(const emx_call *c) {
  ect_program *p = &c->g->program;
  const char *const tensors[] = {"q", "k", "v", "position"}, *const numbers[] = {"layer_id",
                                                                                 "scale"};
  int64_t args[7], layer_id, dtype;
  ect_tensor types[4], out;
  for (size_t i = 0; i < 4; i++) EC_BACKEND_TRY(emx_tensor(c, tensors[i], &args[i], &types[i]));
  for (size_t i = 0; i < 2; i++)
    if (emx_find(c, numbers[i]) == ECT_ABSENT) return EMX_INVALID(c, "no field '%s'", numbers[i]);
  EC_BACKEND_TRY(emx_literal(c, "layer_id", 0, &layer_id));
  EC_BACKEND_TRY(emx_literal(c, "out_dtype", types[0].dtype, &dtype));
  if (types[0].rank != 4 || types[2].rank != 4)
    return EMX_INVALID(c, "'q' or 'v' has not four dimensions");
  out = emx_like(&types[0], emx_float((int32_t)dtype));
  if (out.dtype != dtype) return EMX_INVALID(c, "ScalarType %lld of a result", (long long)dtype);
  out.sizes[3] = types[2].sizes[3];
  out.is_dynamic |= types[2].is_dynamic;
  args[4] = ect_add_int(p, layer_id);
  args[5] = ect_add_double(p, emx_double(c, "scale", 0));
  args[6] = ect_add_int(p, dtype);
  return emx_finish(c, "kvcache::update_and_attend.out", args, 7, &out);
}

/* ---- convolutions ---------------------------------------------------------------------------- */

/* Permutes a tensor by a helper. */
static uint32_t permute(const emx_call *c, const int64_t *order, ect_tensor *t, int64_t *value) {
  ect_program *p = &c->g->program;
  const ect_tensor x = *t;
  for (uint32_t d = 0; d < t->rank; d++) t->sizes[d] = x.sizes[order[d]];
  const int64_t args[] = {*value, ect_add_ints(p, order, t->rank)};
  return emx_helper(c, "aten::permute_copy.out", args, 2, t, value);
}

/* Moves the last axis to the second place. */
static uint32_t channels_first(const emx_call *c, ect_tensor *t, int64_t *value) {
  int64_t order[ECT_MAX_RANK] = {0, t->rank - 1};
  for (uint32_t d = 2; d < t->rank; d++) order[d] = d - 1;
  return permute(c, order, t, value);
}

/* The weight of a transposed convolution, [O, k.., I / groups], as torch's [I, O / groups, k..]. */
static uint32_t swap_weight(const emx_call *c, int64_t groups, ect_tensor *t, int64_t *value) {
  ect_program *p = &c->g->program;
  const uint32_t rank = t->rank;
  int64_t order[ECT_MAX_RANK] = {0, rank, 1}, sizes[ECT_MAX_RANK];
  for (uint32_t d = 0; d < rank; d++)
    if (t->sizes[d] < 0 || t->is_dynamic) return EMX_REFUSE(c, "'w' has sizes that are not fixed");
  if (t->sizes[0] % groups)
    return EMX_INVALID(c, "%lld groups of %lld channels", (long long)groups,
                       (long long)t->sizes[0]);
  ect_tensor split = *t;
  split.rank = rank + 1;
  split.sizes[0] = groups;
  split.sizes[1] = t->sizes[0] / groups;
  memcpy(&split.sizes[2], &t->sizes[1], (rank - 1) * sizeof *sizes);
  const int64_t view[] = {*value, ect_add_ints(p, split.sizes, split.rank)};
  EC_BACKEND_TRY(emx_helper(c, "aten::view_copy.out", view, 2, &split, value));
  for (uint32_t d = 3; d <= rank; d++) order[d] = d - 1;
  EC_BACKEND_TRY(permute(c, order, &split, value));
  split.rank = rank;
  split.sizes[0] *= split.sizes[1];
  memmove(&split.sizes[1], &split.sizes[2], (rank - 1) * sizeof *sizes);
  const int64_t back[] = {*value, ect_add_ints(p, split.sizes, rank)};
  *t = split;
  return emx_helper(c, "aten::view_copy.out", back, 2, &split, value);
}

/* Reads a parameter for each dimension: "stride" of one, "stride_h" and "stride_w" of two, .... */
static uint32_t read_window(const emx_call *c, const char *name, uint32_t dims, int64_t otherwise,
                            int64_t *out) {
  static const char *const ends[][3] = {{""}, {"_h", "_w"}, {"_d", "_h", "_w"}};
  for (uint32_t d = 0; d < dims; d++) {
    char field[40] = "";
    strncat(field, name, 30);
    strcat(field, ends[dims - 1][d]);
    EC_BACKEND_TRY(emx_literal(c, field, otherwise, &out[d]));
    if (out[d] < (otherwise ? 1 : 0) || out[d] > INT32_MAX)
      return EMX_INVALID(c, "'%s' is %lld", field, (long long)out[d]);
  }
  return EC_BACKEND_OK;
}

typedef struct window {
  int64_t stride[3], padding[3], dilation[3], output_padding[3], groups;
  bool is_transposed;
} window;

static uint32_t read_windows(const emx_call *c, uint32_t dims, window *w) {
  EC_BACKEND_TRY(read_window(c, "stride", dims, 1, w->stride));
  EC_BACKEND_TRY(read_window(c, "padding", dims, 0, w->padding));
  EC_BACKEND_TRY(read_window(c, "dilation", dims, 1, w->dilation));
  EC_BACKEND_TRY(read_window(c, "output_padding", dims, 0, w->output_padding));
  EC_BACKEND_TRY(emx_literal(c, "groups", 1, &w->groups));
  return w->groups < 1 ? EMX_INVALID(c, "%lld groups", (long long)w->groups) : EC_BACKEND_OK;
}

/* Returns the size of a result in a dimension; -1: unknown. `x` may be an upper bound. */
static int64_t conv_size(const window *w, uint32_t d, int64_t x, int64_t kernel) {
  if (x < 0 || kernel < 1 || x > INT32_MAX || kernel > INT32_MAX) return -1;
  const int64_t reach = w->dilation[d] * (kernel - 1);
  if (w->is_transposed)
    return (x - 1) * w->stride[d] - 2 * w->padding[d] + reach + w->output_padding[d] + 1;
  return (x + 2 * w->padding[d] - reach - 1) / w->stride[d] + 1;
}

/* Channels are last in the payload, and second in torch's operator. */
uint32_t emx_call_conv(const emx_call *c) {
  ect_program *p = &c->g->program;
  const bool is_transposed = c->n->op.size > 6;
  const uint32_t dims = (uint32_t)(c->n->op.data[c->n->op.size - 2] - '0');
  window win = {.is_transposed = is_transposed};
  int64_t x, w, product, order[ECT_MAX_RANK] = {0};
  ect_tensor t, weight;
  EC_BACKEND_TRY(emx_tensor(c, "x", &x, &t));
  EC_BACKEND_TRY(emx_tensor(c, "w", &w, &weight));
  EC_BACKEND_TRY(read_windows(c, dims, &win));
  if (t.rank != dims + 2 || weight.rank != dims + 2)
    return EMX_INVALID(c, "%u and %u dimensions, expected %u", (unsigned)t.rank,
                       (unsigned)weight.rank, (unsigned)dims + 2);
  const int32_t dtype = emx_float(emx_promote(t.dtype, weight.dtype));
  const int64_t channels = weight.sizes[0];
  t.dtype = weight.dtype = dtype;
  if (p->failed) return ect_refuse(c->g, EC_BACKEND_ALLOCATION_FAILED, "no memory");
  x = ect_convert(p, x, dtype);
  w = ect_convert(p, w, dtype);
  EC_BACKEND_TRY(channels_first(c, &t, &x));
  for (uint32_t d = 0; d < dims; d++)
    t.sizes[d + 2] = conv_size(&win, d, t.sizes[d + 2], weight.sizes[d + 1]);
  if (is_transposed) EC_BACKEND_TRY(swap_weight(c, win.groups, &weight, &w));
  else EC_BACKEND_TRY(channels_first(c, &weight, &w));
  t.sizes[1] = channels;
  const int64_t args[] = {x, w, ect_add_none(p), ect_add_ints(p, win.stride, dims),
                          ect_add_ints(p, win.padding, dims), ect_add_ints(p, win.dilation, dims),
                          ect_add_bool(p, is_transposed),
                          ect_add_ints(p, win.output_padding, dims), ect_add_int(p, win.groups)};
  for (uint32_t d = 0; d < t.rank; d++)
    if (t.sizes[d] < 0 && !t.is_dynamic) return EMX_INVALID(c, "the window is larger than 'x'");
  EC_BACKEND_TRY(emx_helper(c, "aten::convolution.out", args, 9, &t, &product));
  for (uint32_t d = 1; d + 1 < t.rank; d++) order[d] = d + 1;
  order[t.rank - 1] = 1;
  const ect_tensor first = t;
  for (uint32_t d = 0; d < t.rank; d++) t.sizes[d] = first.sizes[order[d]];
  const int64_t back[] = {product, ect_add_ints(p, order, t.rank)};
  return emx_finish(c, "aten::permute_copy.out", back, 2, &t);
}
