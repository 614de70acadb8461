/* Operations that are not one row: windows, shapes, quantisation. */
#include "special.h"

#include <string.h>

#include "../translate/pack.h"

enum { INT8 = 1, UINT8 = 0, INT64 = 4, FLOAT32 = 6, OUTPUTS = 3, MOST_OUTPUTS = 64 };

static uint32_t call(ecm_node *n, const char *op, const int64_t *args, size_t count,
                     const int64_t *outs, size_t out_count, bool is_shown) {
  return ect_pack_call(n->m->c.call, &n->m->program, op, args, count, outs, out_count,
                       is_shown ? &n->shown : NULL, n->what);
}

static uint32_t tensor_type(ecm_node *n, const char *name, int64_t *id, ect_tensor *out) {
  *out = (ect_tensor){0};
  ECM_TRY(ecm_input(n, name, id));
  const ect_tensor *t = ect_tensor_at(&n->m->program, *id);
  if (!t) return ecm_fail(&n->m->c, EC_BACKEND_ALLOCATION_FAILED, "no memory");
  *out = *t;
  return EC_BACKEND_OK;
}

/* ---- windows --------------------------------------------------------------------------------- */

/* Reads ints, one for each spatial dimension; `otherwise` without the argument. */
static uint32_t spatial(ecm_node *n, const char *name, int64_t otherwise, size_t dims,
                        int64_t *out) {
  size_t count = 0;
  ECM_TRY(ecm_numbers(n, name, out, dims, &count));
  if (count && count != dims) return ecm_refuse(n, "a window's list has another rank than x");
  for (size_t i = count; i < dims; i++) out[i] = otherwise;
  return EC_BACKEND_OK;
}

/* Reads symmetric padding: [begin, end] for each dimension. */
static uint32_t padding(ecm_node *n, size_t dims, int64_t *out) {
  int64_t pads[2 * ECT_MAX_RANK] = {0};
  size_t count = 0;
  if (ecm_text_is(n, "pad_type", "custom", false))
    ECM_TRY(ecm_numbers(n, "pad", pads, 2 * dims, &count));
  else if (!ecm_text_is(n, "pad_type", "valid", true))
    return ecm_refuse(n, "pad_type is neither 'valid' nor 'custom'");
  if (count && count != 2 * dims) return ecm_refuse(n, "pad has another rank than x");
  for (size_t d = 0; d < dims; d++) {
    if (pads[2 * d] != pads[2 * d + 1]) return ecm_refuse(n, "padding is not symmetric");
    out[d] = pads[2 * d];
  }
  return EC_BACKEND_OK;
}

static uint32_t window_rank(ecm_node *n, int64_t *x, size_t *dims) {
  ect_tensor t;
  ECM_TRY(tensor_type(n, "x", x, &t));
  if (t.rank < 3 || t.rank > 5) return ecm_refuse(n, "x does not have 3 to 5 dimensions");
  *dims = t.rank - 2;
  return EC_BACKEND_OK;
}

uint32_t ecm_call_conv(ecm_node *n) {
  ect_program *p = &n->m->program;
  int64_t args[9], strides[3], pads[3], dilations[3];
  double groups = 1;
  size_t dims = 0;
  ecm_value *bias;
  ECM_TRY(window_rank(n, &args[0], &dims));
  ECM_TRY(ecm_input(n, "weight", &args[1]));
  ECM_TRY(ecm_argument(n, "bias", &bias));
  args[2] = ect_add_none(p);
  if (bias) ECM_TRY(ecm_tensor(n->m, bias, &args[2]));
  ECM_TRY(spatial(n, "strides", 1, dims, strides));
  ECM_TRY(padding(n, dims, pads));
  ECM_TRY(spatial(n, "dilations", 1, dims, dilations));
  ECM_TRY(ecm_number(n, "groups", 1, &groups));
  args[3] = ect_add_ints(p, strides, dims);
  args[4] = ect_add_ints(p, pads, dims);
  args[5] = ect_add_ints(p, dilations, dims);
  args[6] = ect_add_bool(p, false);
  args[7] = ect_add_ints(p, (int64_t[3]){0, 0, 0}, dims);
  args[8] = ect_add_int(p, (int64_t)groups);
  return call(n, "aten::convolution.out", args, 9, &n->result, 1, true);
}

uint32_t ecm_call_max_pool(ecm_node *n) {
  ect_program *p = &n->m->program;
  int64_t args[6], kernel[3], strides[3], pads[3];
  double ceil_mode = 0;
  size_t dims = 0;
  ECM_TRY(window_rank(n, &args[0], &dims));
  if (dims != 2) return ecm_refuse(n, "x does not have 4 dimensions");
  ECM_TRY(spatial(n, "kernel_sizes", 1, dims, kernel));
  ECM_TRY(spatial(n, "strides", 1, dims, strides));
  ECM_TRY(padding(n, dims, pads));
  ECM_TRY(ecm_number(n, "ceil_mode", 0, &ceil_mode));
  args[1] = ect_add_ints(p, kernel, dims);
  args[2] = ect_add_ints(p, strides, dims);
  args[3] = ect_add_ints(p, pads, dims);
  args[4] = ect_add_int(p, 1);
  args[5] = ect_add_bool(p, ceil_mode != 0);
  const int64_t outs[] = {n->result, ecm_add_like(n, &n->type.type, INT64)};
  return call(n, "aten::max_pool2d_with_indices.out", args, 6, outs, 2, true);
}

/* ---- shapes ---------------------------------------------------------------------------------- */

/* reshape, expand_dims, squeeze: a view in the shape of the result's type. */
uint32_t ecm_call_view(ecm_node *n) {
  int64_t args[2], sizes[ECT_MAX_RANK];
  size_t count = 0;
  const ect_tensor *t = &n->type.type;
  memcpy(sizes, t->sizes, sizeof sizes);
  ECM_TRY(ecm_input(n, "x", &args[0]));
  if (n->type.unknown) {
    ECM_TRY(ecm_numbers(n, "shape", sizes, ECT_MAX_RANK, &count));
    if (count != t->rank) return ecm_refuse(n, "the shape of the result is not constant");
  }
  args[1] = ect_add_ints(&n->m->program, sizes, t->rank);
  return call(n, "aten::view_copy.out", args, 2, &n->result, 1, true);
}

static uint32_t read_output(ecm_node *n, ecm_bytes output, ecm_bytes *name, int64_t *id) {
  ecm_field field, type;
  ecm_value value;
  if (!ecm_wire_find(output, 1, &field) || !ecm_wire_find(output, 2, &type))
    return ecm_refuse(n, "a result has no name or type");
  *name = field.bytes;
  ECM_TRY(ecm_read_type(n->m, type.bytes, &value));
  ECM_TRY(ecm_tensor(n->m, &value, id));
  return ecm_define(n->m, *name, &value);
}

uint32_t ecm_call_split(ecm_node *n) {
  ect_program *p = &n->m->program;
  int64_t args[3], outs[MOST_OUTPUTS], sizes[MOST_OUTPUTS];
  ect_tensor x;
  ecm_field field;
  ecm_bytes name = {0};
  double axis = 0;
  size_t count = 0;
  ECM_TRY(tensor_type(n, "x", &args[0], &x));
  ECM_TRY(ecm_number(n, "axis", 0, &axis));
  if (axis < 0) axis += x.rank;
  if (axis < 0 || axis >= x.rank) return ecm_refuse(n, "axis is out of range");
  for (ecm_bytes rest = n->message; ecm_wire_next(&rest, &field);) {
    if (field.number != OUTPUTS) continue;
    if (count == MOST_OUTPUTS) return ecm_refuse(n, "more than 64 results");
    ECM_TRY(read_output(n, field.bytes, &name, &outs[count]));
    const ect_tensor *t = ect_tensor_at(p, outs[count]);
    sizes[count++] = t ? t->sizes[(size_t)axis] : 0;
  }
  n->shown = (ec_backend_node){ecm_names_find(&n->m->handles, name), "split", 0};
  args[1] = ect_add_ints(p, sizes, count);
  args[2] = ect_add_int(p, (int64_t)axis);
  const int64_t list = ect_add_list(p, ECT_TENSOR_LIST, outs, count);
  return call(n, "aten::split_with_sizes_copy.out", args, 3, &list, 1, true);
}

/* ---- matrices and layers --------------------------------------------------------------------- */

static uint32_t transpose_last(ecm_node *n, int64_t *id, ect_tensor *t) {
  int64_t perm[ECT_MAX_RANK], last;
  if (t->rank < 2) return ecm_refuse(n, "an operand does not have 2 dimensions");
  for (uint32_t d = 0; d < t->rank; d++) perm[d] = d;
  perm[t->rank - 1] = t->rank - 2;
  perm[t->rank - 2] = t->rank - 1;
  last = t->sizes[t->rank - 1];
  t->sizes[t->rank - 1] = t->sizes[t->rank - 2];
  t->sizes[t->rank - 2] = last;
  const int64_t args[] = {*id, ect_add_ints(&n->m->program, perm, t->rank)};
  *id = ecm_add_like(n, t, t->dtype);
  return call(n, "aten::permute_copy.out", args, 2, id, 1, false);
}

/* Views an operand or result of more dimensions as three. */
static uint32_t as_three(ecm_node *n, const ect_tensor *t, int64_t *id) {
  ect_tensor three = {.dtype = t->dtype, .rank = 3, .sizes = {1}};
  for (uint32_t d = 0; d + 2 < t->rank; d++)
    if (__builtin_mul_overflow(three.sizes[0], t->sizes[d], &three.sizes[0]))
      return ecm_refuse(n, "an operand is too large");
  three.sizes[1] = t->sizes[t->rank - 2];
  three.sizes[2] = t->sizes[t->rank - 1];
  const int64_t args[] = {*id, ect_add_ints(&n->m->program, three.sizes, 3)};
  *id = ecm_add_like(n, &three, t->dtype);
  return *args == ECT_NO_VALUE ? (uint32_t)EC_BACKEND_OK
                               : call(n, "aten::view_copy.out", args, 2, id, 1, false);
}

uint32_t ecm_call_matmul(ecm_node *n) {
  int64_t args[2], product = ECT_NO_VALUE;
  ect_tensor t[2];
  static const char *const names[] = {"x", "y"}, *const flags[] = {"transpose_x", "transpose_y"};
  double flag = 0;
  for (size_t i = 0; i < 2; i++) {
    ECM_TRY(tensor_type(n, names[i], &args[i], &t[i]));
    ECM_TRY(ecm_number(n, flags[i], 0, &flag));
    if (flag != 0) ECM_TRY(transpose_last(n, &args[i], &t[i]));
  }
  const ect_tensor *out = &n->type.type;
  if (t[0].rank != t[1].rank || out->rank != t[0].rank || out->rank < 2)
    return ecm_refuse(n, "operands of different ranks");
  if (out->rank == 2) return call(n, "aten::mm.out", args, 2, &n->result, 1, true);
  if (out->rank == 3) return call(n, "aten::bmm.out", args, 2, &n->result, 1, true);
  if (n->type.unknown) return ecm_refuse(n, "more than 3 dimensions, some of them unknown");
  for (uint32_t d = 0; d + 2 < out->rank; d++)
    if (t[0].sizes[d] != t[1].sizes[d]) return ecm_refuse(n, "operands of different batches");
  for (size_t i = 0; i < 2; i++) ECM_TRY(as_three(n, &t[i], &args[i]));
  ECM_TRY(as_three(n, out, &product));
  ECM_TRY(call(n, "aten::bmm.out", args, 2, &product, 1, true));
  const int64_t view[] = {product, ect_add_ints(&n->m->program, out->sizes, out->rank)};
  return call(n, "aten::view_copy.out", view, 2, &n->result, 1, false);
}

uint32_t ecm_call_layer_norm(ecm_node *n) {
  ect_program *p = &n->m->program;
  int64_t args[5], axes[ECT_MAX_RANK];
  static const char *const names[] = {"gamma", "beta"};
  ect_tensor x;
  ecm_value *v = NULL;
  size_t count = 0;
  double epsilon = 0;
  ECM_TRY(tensor_type(n, "x", &args[0], &x));
  ECM_TRY(ecm_numbers(n, "axes", axes, ECT_MAX_RANK, &count));
  for (size_t i = 0; i < count; i++) {
    const int64_t axis = axes[i] < 0 ? axes[i] + x.rank : axes[i];
    if (count > x.rank || axis != (int64_t)(x.rank - count + i))
      return ecm_refuse(n, "axes are not the last ones");
  }
  if (!count) count = x.rank;
  args[1] = ect_add_ints(p, x.sizes + x.rank - count, count);
  for (size_t i = 0; i < 2; i++) {
    ECM_TRY(ecm_argument(n, names[i], &v));
    args[2 + i] = ect_add_none(p);
    if (v) ECM_TRY(ecm_tensor(n->m, v, &args[2 + i]));
  }
  ECM_TRY(ecm_number(n, "epsilon", 1e-5, &epsilon));
  args[4] = ect_add_double(p, epsilon);
  ect_tensor one = x;
  for (size_t i = x.rank - count; i < x.rank; i++) one.sizes[i] = 1;
  const int64_t outs[] = {n->result, ecm_add_like(n, &one, x.dtype),
                          ecm_add_like(n, &one, x.dtype)};
  return call(n, "aten::native_layer_norm.out", args, 5, outs, 3, true);
}

uint32_t ecm_call_gelu(ecm_node *n) {
  int64_t args[2];
  const bool tanh = ecm_text_is(n, "mode", "TANH_APPROXIMATION", false);
  if (!tanh && !ecm_text_is(n, "mode", "EXACT", true))
    return ecm_refuse(n, "mode is neither EXACT nor TANH_APPROXIMATION");
  ECM_TRY(ecm_input(n, "x", &args[0]));
  args[1] = ect_add_string(&n->m->program, tanh ? "tanh" : "none", 4);
  return call(n, "aten::gelu.out", args, 2, &n->result, 1, true);
}

/* ---- quantisation ---------------------------------------------------------------------------- */

/* Arguments of a call with one scale: quantised is the integers' dtype. */
static uint32_t quantise(ecm_node *n, const char *op, int32_t quantised) {
  ect_program *p = &n->m->program;
  int64_t args[6];
  double scale = 0, zero = 0;
  if (quantised != INT8 && quantised != UINT8) return ecm_refuse(n, "integers of another dtype");
  ECM_TRY(ecm_input(n, "input", &args[0]));
  ECM_TRY(ecm_number(n, "scale", 0, &scale));
  ECM_TRY(ecm_number(n, "zero_point", 0, &zero));
  args[1] = ect_add_double(p, scale);
  args[2] = ect_add_int(p, (int64_t)zero);
  args[3] = ect_add_int(p, quantised == INT8 ? -128 : 0);
  args[4] = ect_add_int(p, quantised == INT8 ? 127 : 255);
  args[5] = ect_add_int(p, quantised);
  return call(n, op, args, 6, &n->result, 1, true);
}

uint32_t ecm_call_quantize(ecm_node *n) {
  return quantise(n, "quantized_decomposed::quantize_per_tensor.out", n->type.type.dtype);
}

uint32_t ecm_call_dequantize(ecm_node *n) {
  int64_t input = 0;
  ect_tensor t;
  ECM_TRY(tensor_type(n, "input", &input, &t));
  if (n->type.type.dtype != FLOAT32) return ecm_refuse(n, "the result is not float32");
  return quantise(n, "quantized_decomposed::dequantize_per_tensor.out", t.dtype);
}
