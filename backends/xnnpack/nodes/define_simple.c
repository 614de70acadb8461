/* Nodes that compute elementwise, or only move elements. */
#include <string.h>

#include "call.h"
#include "nodes/define.h"
#include "nodes/graph.h"
#include "payload/values.h"

/* XNNPACK deprecates these in one revision and keeps them in the next. */
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"

static uint32_t define_unary(ecx_builder *b, const ecx_node *n, int operator,
                             const union xnn_unary_params *params) {
  return DONE(b, n, "xnn_define_unary",
              xnn_define_unary(b->subgraph, (enum xnn_unary_operator)operator, params,
                               ecx_in_id(b, n, 0), ecx_out_id(b, n, 0), n->flags));
}

uint32_t ecx_define_unary(ecx_builder *b, const ecx_node *n) {
  return define_unary(b, n, n->kind->argument, NULL);
}

uint32_t ecx_define_convert(ecx_builder *b, const ecx_node *n) {
  return define_unary(b, n, xnn_unary_convert, NULL);
}

/* Defines the result as NaN, as PyTorch does for bounds that are NaN: the sum of `in` and NaN. */
static uint32_t define_nan(const ecx_builder *b, const ecx_node *n, uint32_t in) {
  /* XNNPACK reads beyond the element. */
  static const _Alignas(16) uint32_t nan32[8] = {0x7fc00000u};
  static const _Alignas(16) uint16_t nan16[16] = {0x7e00u};
  const ecx_value *out = ecx_out(b->graph, n, 0);
  const bool is_half = out->dtype == ECX_fp16;
  uint32_t id;
  if (out->scheme != ECX_PLAIN)
    return ecx_fail_node(b->c, n, EC_BACKEND_INVALID_PROGRAM, "bounds %g and %g of integers",
                         n->min, n->max);
  enum xnn_status status = xnn_define_tensor_value(
      b->subgraph, is_half ? xnn_datatype_fp16 : xnn_datatype_fp32, 0, NULL,
      is_half ? (const void *)nan16 : (const void *)nan32, XNN_INVALID_VALUE_ID, 0, &id);
  if (!status)
    status = xnn_define_binary(b->subgraph, xnn_binary_add, NULL, in, id, ecx_out_id(b, n, 0), 0);
  return DONE(b, n, "xnn_define_binary", status);
}

static bool has_nan_bounds(const ecx_node *n) { return n->min != n->min || n->max != n->max; }

uint32_t ecx_define_clamp(ecx_builder *b, const ecx_node *n) {
  if (has_nan_bounds(n)) return define_nan(b, n, ecx_in_id(b, n, 0));
  const union xnn_unary_params params = {.clamp = {n->min, n->max}};
  return define_unary(b, n, xnn_unary_clamp, &params);
}

uint32_t ecx_define_leaky_relu(ecx_builder *b, const ecx_node *n) {
  const union xnn_unary_params params = {
    .leaky_relu = {ec_fb_f32(n->params, ECX_LeakyReLU_negative_slope)}};
  return define_unary(b, n, xnn_unary_leaky_relu, &params);
}

uint32_t ecx_define_elu(ecx_builder *b, const ecx_node *n) {
  const union xnn_unary_params params = {.elu = {ec_fb_f32(n->params, ECX_ELU_alpha)}};
  return define_unary(b, n, xnn_unary_elu, &params);
}

static uint32_t define_binary(ecx_builder *b, const ecx_node *n,
                              const struct xnn_binary_params *params) {
  return DONE(b, n, "xnn_define_binary",
              xnn_define_binary(b->subgraph, (enum xnn_binary_operator)n->kind->argument, params,
                                ecx_in_id(b, n, 0), ecx_in_id(b, n, 1), ecx_out_id(b, n, 0),
                                n->flags));
}

uint32_t ecx_define_binary(ecx_builder *b, const ecx_node *n) { return define_binary(b, n, NULL); }

uint32_t ecx_define_clamped_binary(ecx_builder *b, const ecx_node *n) {
  const struct xnn_binary_params params = {n->min, n->max};
  const ecx_value *out = ecx_out(b->graph, n, 0);
  uint32_t id = XNN_INVALID_VALUE_ID;
  if (!has_nan_bounds(n)) return define_binary(b, n, &params);
  enum xnn_status status =
      xnn_define_tensor_value(b->subgraph, ecx_dtypes[out->dtype].as, out->shape.rank,
                              out->shape.dims, NULL, XNN_INVALID_VALUE_ID, 0, &id);
  if (!status)
    status = xnn_define_binary(b->subgraph, (enum xnn_binary_operator)n->kind->argument, NULL,
                               ecx_in_id(b, n, 0), ecx_in_id(b, n, 1), id, n->flags);
  return status ? DONE(b, n, "xnn_define_binary", status) : define_nan(b, n, id);
}

uint32_t ecx_define_softmax(ecx_builder *b, const ecx_node *n) {
  return DONE(b, n, "xnn_define_softmax",
              xnn_define_softmax(b->subgraph, ecx_in_id(b, n, 0), ecx_out_id(b, n, 0), n->flags));
}

uint32_t ecx_define_copy(ecx_builder *b, const ecx_node *n) {
  return DONE(b, n, "xnn_define_copy",
              xnn_define_copy(b->subgraph, ecx_in_id(b, n, 0), ecx_out_id(b, n, 0), n->flags));
}

/* ---- moves ----------------------------------------------------------------------------------- */

/* Returns a vector of the node's table as sizes; shapes_move.c has checked its length. */
static const size_t *sizes(const ecx_node *n, unsigned field, size_t out[XNN_MAX_TENSOR_DIMS]) {
  ec_fb_vec vec = ec_fb_vector(n->params, field);
  for (uint32_t i = 0; i < vec.count && i < XNN_MAX_TENSOR_DIMS; i++)
    out[i] = (uint32_t)ec_fb_vec_i32(vec, i);
  return out;
}

uint32_t ecx_define_transpose(ecx_builder *b, const ecx_node *n) {
  size_t perm[XNN_MAX_TENSOR_DIMS];
  return DONE(b, n, "xnn_define_static_transpose",
              xnn_define_static_transpose(b->subgraph, ecx_in(b->graph, n, 0)->shape.rank,
                                          sizes(n, ECX_Transpose_perm, perm), ecx_in_id(b, n, 0),
                                          ecx_out_id(b, n, 0), n->flags));
}

uint32_t ecx_define_reshape(ecx_builder *b, const ecx_node *n) {
  size_t dims[XNN_MAX_TENSOR_DIMS] = {0};
  return DONE(b, n, "xnn_define_static_reshape",
              xnn_define_static_reshape(b->subgraph, ecx_out(b->graph, n, 0)->shape.rank,
                                        sizes(n, ECX_Reshape_new_shape, dims), ecx_in_id(b, n, 0),
                                        ecx_out_id(b, n, 0), n->flags));
}

uint32_t ecx_define_slice(ecx_builder *b, const ecx_node *n) {
  size_t offsets[XNN_MAX_TENSOR_DIMS], counts[XNN_MAX_TENSOR_DIMS];
  return DONE(b, n, "xnn_define_static_slice",
              xnn_define_static_slice(b->subgraph, ecx_in(b->graph, n, 0)->shape.rank,
                                      sizes(n, ECX_Slice_offsets, offsets),
                                      sizes(n, ECX_Slice_sizes, counts), ecx_in_id(b, n, 0),
                                      ecx_out_id(b, n, 0), n->flags));
}

uint32_t ecx_define_pad(ecx_builder *b, const ecx_node *n) {
  size_t before[XNN_MAX_TENSOR_DIMS], after[XNN_MAX_TENSOR_DIMS];
  if (!ecx_in(b->graph, n, 0)->shape.rank) return ecx_define_copy(b, n);
  return DONE(b, n, "xnn_define_static_constant_pad",
              xnn_define_static_constant_pad(
                  b->subgraph, sizes(n, ECX_Pad_before, before), sizes(n, ECX_Pad_after, after),
                  ec_fb_f32(n->params, ECX_Pad_value), ecx_in_id(b, n, 0), ecx_out_id(b, n, 0),
                  n->flags));
}

uint32_t ecx_define_concatenate(ecx_builder *b, const ecx_node *n) {
  int32_t axis = (int32_t)ECX_PARAM(n, Concatenate, axis);
  uint32_t in[ECX_MAX_INPUTS], out = ecx_out_id(b, n, 0);
  enum xnn_status status = xnn_status_unsupported_parameter;
  for (unsigned i = 0; i < n->kind->inputs; i++) in[i] = ecx_in_id(b, n, i);
  switch (n->kind->inputs) {
  case 2: status = xnn_define_concatenate2(b->subgraph, axis, in[0], in[1], out, n->flags); break;
  case 3:
    status = xnn_define_concatenate3(b->subgraph, axis, in[0], in[1], in[2], out, n->flags);
    break;
  case 4:
    status = xnn_define_concatenate4(b->subgraph, axis, in[0], in[1], in[2], in[3], out, n->flags);
    break;
  case 5:
    status = xnn_define_concatenate5(b->subgraph, axis, in[0], in[1], in[2], in[3], in[4], out,
                                     n->flags);
    break;
  }
  return DONE(b, n, "xnn_define_concatenate", status);
}
