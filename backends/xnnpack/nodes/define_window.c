/* Convolutions, pooling and resizing. */
#include "call.h"
#include "nodes/define.h"
#include "nodes/graph.h"
#include "nodes/shapes_window.h"
#include "payload/values.h"

#pragma GCC diagnostic ignored "-Wdeprecated-declarations"

#define P(field) ECX_PARAM(n, Conv, field)
#define POOL(field) ECX_PARAM(n, Pooling, field)

uint32_t ecx_define_conv(ecx_builder *b, const ecx_node *n) {
  const ecx_padding p = ecx_padding_of(b->graph, n);
  return DONE(b, n, "xnn_define_convolution_2d",
              xnn_define_convolution_2d(
                  b->subgraph, p.top, p.right, p.bottom, p.left,
                  P(kernel_height), P(kernel_width), P(stride_height), P(stride_width),
                  P(dilation_height), P(dilation_width), P(groups), P(group_input_channels),
                  P(group_output_channels), n->min, n->max, ecx_in_id(b, n, 0), ecx_in_id(b, n, 1),
                  ecx_in_id(b, n, 2), ecx_out_id(b, n, 0), p.flags));
}

uint32_t ecx_define_depthwise_conv(ecx_builder *b, const ecx_node *n) {
  const ecx_padding p = ecx_padding_of(b->graph, n);
  return DONE(b, n, "xnn_define_depthwise_convolution_2d",
              xnn_define_depthwise_convolution_2d(
                  b->subgraph, p.top, p.right, p.bottom, p.left,
                  P(kernel_height), P(kernel_width), P(stride_height), P(stride_width),
                  P(dilation_height), P(dilation_width),
                  P(group_output_channels) / P(group_input_channels), P(groups), n->min, n->max,
                  ecx_in_id(b, n, 0), ecx_in_id(b, n, 1), ecx_in_id(b, n, 2), ecx_out_id(b, n, 0),
                  p.flags));
}

uint32_t ecx_define_deconv(ecx_builder *b, const ecx_node *n) {
  return DONE(b, n, "xnn_define_deconvolution_2d",
              xnn_define_deconvolution_2d(
                  b->subgraph, P(padding_top), P(padding_right), P(padding_bottom), P(padding_left),
                  P(adjustment_height), P(adjustment_width), P(kernel_height), P(kernel_width),
                  P(stride_height), P(stride_width), P(dilation_height), P(dilation_width),
                  P(groups), P(group_input_channels), P(group_output_channels), n->min, n->max,
                  ecx_in_id(b, n, 0), ecx_in_id(b, n, 1), ecx_in_id(b, n, 2), ecx_out_id(b, n, 0),
                  n->flags));
}

/* Defines a value between the parts of a pooling, of its input's datatype. */
static enum xnn_status define_between(const ecx_builder *b, const ecx_node *n, const ecx_shape *s,
                                      uint32_t *id) {
  const ecx_value *in = ecx_in(b->graph, n, 0);
  const enum xnn_datatype as = ecx_dtypes[in->dtype].as;
  return in->scheme == ECX_PER_TENSOR
             ? xnn_define_quantized_tensor_value(b->subgraph, as, in->zero_point, in->scale,
                                                 s->rank, s->dims, NULL, XNN_INVALID_VALUE_ID, 0,
                                                 id)
             : xnn_define_tensor_value(b->subgraph, as, s->rank, s->dims, NULL,
                                       XNN_INVALID_VALUE_ID, 0, id);
}

/* Pads the input of a pooling, of shape `s`, with the lowest number. */
static uint32_t define_padded(const ecx_builder *b, const ecx_node *n, ecx_shape *s,
                              uint32_t *id) {
  const ecx_padding p = ecx_padding_of(b->graph, n);
  const size_t before[] = {0, p.top, p.left, 0}, after[] = {0, p.bottom, p.right, 0};
  for (size_t d = 0; d < s->rank; d++) s->dims[d] += before[d] + after[d];
  enum xnn_status status = define_between(b, n, s, id);
  if (!status)
    status = xnn_define_static_constant_pad(b->subgraph, before, after, -__builtin_inff(),
                                            ecx_in_id(b, n, 0), *id, 0);
  return DONE(b, n, "xnn_define_static_constant_pad", status);
}

/* Defines the maxima of all windows, at each position, of an input of shape `s`, whose padding is
 * apart. `*id`: of the input, then of the result. */
static uint32_t define_maxima(const ecx_builder *b, const ecx_node *n, ecx_shape *s,
                              uint32_t *id) {
  const uint32_t in = *id, height = POOL(pooling_height), width = POOL(pooling_width);
  if (height * width == 1) return EC_BACKEND_OK;
  s->dims[1] -= (size_t)(height - 1) * POOL(dilation_height);
  s->dims[2] -= (size_t)(width - 1) * POOL(dilation_width);
  enum xnn_status status = define_between(b, n, s, id);
  if (!status)
    status = xnn_define_max_pooling_2d(b->subgraph, 0, 0, 0, 0, height, width, 1, 1,
                                       POOL(dilation_height), POOL(dilation_width),
                                       -__builtin_inff(), __builtin_inff(), in, *id, 0);
  return DONE(b, n, "xnn_define_max_pooling_2d", status);
}

/* Defines a conversion to float32 or back. */
static enum xnn_status define_conversion(const ecx_builder *b, uint32_t in, uint32_t out) {
  return xnn_define_unary(b->subgraph, xnn_unary_convert, NULL, in, out, 0);
}

/* Defines the elements of `id`, of shape `s`, at the node's strides: a mean of one element is that
 * element. XNNPACK has means of floats only. */
static uint32_t define_strided(const ecx_builder *b, const ecx_node *n, const ecx_shape *s,
                               uint32_t id) {
  const bool is_quantised = ecx_in(b->graph, n, 0)->scheme == ECX_PER_TENSOR;
  const ecx_shape *result = &ecx_out(b->graph, n, 0)->shape;
  uint32_t floats = id, to = ecx_out_id(b, n, 0);
  enum xnn_status status = xnn_status_success;
  if (is_quantised) {
    status = xnn_define_tensor_value(b->subgraph, xnn_datatype_fp32, s->rank, s->dims, NULL,
                                     XNN_INVALID_VALUE_ID, 0, &floats);
    if (!status) status = define_conversion(b, id, floats);
    if (!status)
      status = xnn_define_tensor_value(b->subgraph, xnn_datatype_fp32, result->rank, result->dims,
                                       NULL, XNN_INVALID_VALUE_ID, 0, &to);
  }
  if (!status)
    status = xnn_define_average_pooling_2d(b->subgraph, 0, 0, 0, 0, 1, 1, POOL(stride_height),
                                           POOL(stride_width), n->min, n->max, floats, to, 0);
  if (!status && is_quantised) status = define_conversion(b, to, ecx_out_id(b, n, 0));
  return DONE(b, n, "xnn_define_average_pooling_2d", status);
}

uint32_t ecx_define_max_pooling(ecx_builder *b, const ecx_node *n) {
  const ecx_padding p = ecx_padding_of(b->graph, n);
  const bool is_padded = p.top || p.right || p.bottom || p.left;
  const bool apart = ecx_pads_apart(n) || (p.flags != n->flags && is_padded);
  ecx_shape s = ecx_in(b->graph, n, 0)->shape;
  uint32_t id = ecx_in_id(b, n, 0);
  if (apart) ECX_TRY(define_padded(b, n, &s, &id));
  if (ecx_strides_apart(n)) {
    ECX_TRY(define_maxima(b, n, &s, &id));
    return define_strided(b, n, &s, id);
  }
  return DONE(b, n, "xnn_define_max_pooling_2d",
              xnn_define_max_pooling_2d(
                  b->subgraph, apart ? 0 : p.top, apart ? 0 : p.right, apart ? 0 : p.bottom,
                  apart ? 0 : p.left,
                  POOL(pooling_height), POOL(pooling_width), POOL(stride_height),
                  POOL(stride_width), POOL(dilation_height), POOL(dilation_width), n->min, n->max,
                  id, ecx_out_id(b, n, 0), n->flags));
}

uint32_t ecx_define_average_pooling(ecx_builder *b, const ecx_node *n) {
  const ecx_padding p = ecx_padding_of(b->graph, n);
  return DONE(b, n, "xnn_define_average_pooling_2d",
              xnn_define_average_pooling_2d(
                  b->subgraph, p.top, p.right, p.bottom, p.left, POOL(pooling_height),
                  POOL(pooling_width), POOL(stride_height), POOL(stride_width), n->min, n->max,
                  ecx_in_id(b, n, 0), ecx_out_id(b, n, 0), p.flags));
}

/* Defines integers of the shape of `like`. */
static enum xnn_status define_bytes(const ecx_builder *b, const ecx_shape *like, uint32_t *id) {
  return xnn_define_quantized_tensor_value(b->subgraph, xnn_datatype_quint8, 0, 1.0f, like->rank,
                                           like->dims, NULL, XNN_INVALID_VALUE_ID, 0, id);
}

/* Defines the maxima of windows of one element, which XNNPACK refuses: a copy, and indices that are
 * 0, whatever the elements are (NaN, too): integers between 0 and 0. */
static uint32_t define_argmax_of_one(ecx_builder *b, const ecx_node *n) {
  const ecx_shape *s = &ecx_in(b->graph, n, 0)->shape;
  const union xnn_unary_params none = {.clamp = {0.0f, 0.0f}};
  const uint32_t in = ecx_in_id(b, n, 0);
  uint32_t bytes, zeros;
  enum xnn_status status = xnn_define_copy(b->subgraph, in, ecx_out_id(b, n, 0), 0);
  if (!status) status = define_bytes(b, s, &bytes);
  if (!status) status = define_bytes(b, s, &zeros);
  if (!status) status = define_conversion(b, in, bytes);
  if (!status) status = xnn_define_unary(b->subgraph, xnn_unary_clamp, &none, bytes, zeros, 0);
  if (!status) status = define_conversion(b, zeros, ecx_out_id(b, n, 1));
  return DONE(b, n, "xnn_define_copy", status);
}

uint32_t ecx_define_argmax_pooling(ecx_builder *b, const ecx_node *n) {
  if (ECX_PARAM(n, ArgMaxPooling, pooling_height) * ECX_PARAM(n, ArgMaxPooling, pooling_width) == 1)
    return define_argmax_of_one(b, n);
  return DONE(b, n, "xnn_define_argmax_pooling_2d",
              xnn_define_argmax_pooling_2d(
                  b->subgraph, ECX_PARAM(n, ArgMaxPooling, padding_top),
                  ECX_PARAM(n, ArgMaxPooling, padding_right),
                  ECX_PARAM(n, ArgMaxPooling, padding_bottom),
                  ECX_PARAM(n, ArgMaxPooling, padding_left),
                  ECX_PARAM(n, ArgMaxPooling, pooling_height),
                  ECX_PARAM(n, ArgMaxPooling, pooling_width), ecx_in_id(b, n, 0),
                  ecx_out_id(b, n, 0), ecx_out_id(b, n, 1), n->flags));
}

uint32_t ecx_define_global_average_pooling(ecx_builder *b, const ecx_node *n) {
  return DONE(b, n, "xnn_define_global_average_pooling_2d",
              xnn_define_global_average_pooling_2d(b->subgraph, n->min, n->max, ecx_in_id(b, n, 0),
                                                   ecx_out_id(b, n, 0), n->flags));
}

uint32_t ecx_define_resize(ecx_builder *b, const ecx_node *n) {
  return DONE(b, n, "xnn_define_static_resize_bilinear_2d",
              xnn_define_static_resize_bilinear_2d(
                  b->subgraph, ECX_PARAM(n, Resize, height), ECX_PARAM(n, Resize, width),
                  ecx_in_id(b, n, 0), ecx_out_id(b, n, 0), n->flags));
}
