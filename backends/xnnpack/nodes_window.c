/* Convolutions, pooling and resizing. */
#include "call.h"
#include "define.h"
#include "graph.h"
#include "shapes_window.h"
#include "values.h"

#pragma GCC diagnostic ignored "-Wdeprecated-declarations"

#define P(field) ECX_PARAM(n, Conv, field)
#define POOL(field) ECX_PARAM(n, Pooling, field)

uint32_t ecx_define_conv(ecx_builder *b, const ecx_node *n) {
  return DONE(b, n, "xnn_define_convolution_2d",
              xnn_define_convolution_2d(
                  b->subgraph, P(padding_top), P(padding_right), P(padding_bottom), P(padding_left),
                  P(kernel_height), P(kernel_width), P(stride_height), P(stride_width),
                  P(dilation_height), P(dilation_width), P(groups), P(group_input_channels),
                  P(group_output_channels), n->min, n->max, ecx_in_id(b, n, 0), ecx_in_id(b, n, 1),
                  ecx_in_id(b, n, 2), ecx_out_id(b, n, 0), n->flags));
}

uint32_t ecx_define_depthwise_conv(ecx_builder *b, const ecx_node *n) {
  return DONE(b, n, "xnn_define_depthwise_convolution_2d",
              xnn_define_depthwise_convolution_2d(
                  b->subgraph, P(padding_top), P(padding_right), P(padding_bottom), P(padding_left),
                  P(kernel_height), P(kernel_width), P(stride_height), P(stride_width),
                  P(dilation_height), P(dilation_width),
                  P(group_output_channels) / P(group_input_channels), P(groups), n->min, n->max,
                  ecx_in_id(b, n, 0), ecx_in_id(b, n, 1), ecx_in_id(b, n, 2), ecx_out_id(b, n, 0),
                  n->flags));
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

/* Pads the input of a pooling with the lowest number. */
static uint32_t define_padded(const ecx_builder *b, const ecx_node *n, uint32_t *id) {
  const ecx_value *in = ecx_in(b->graph, n, 0);
  const size_t before[] = {0, POOL(padding_top), POOL(padding_left), 0};
  const size_t after[] = {0, POOL(padding_bottom), POOL(padding_right), 0};
  enum xnn_datatype as = ecx_dtypes[in->dtype].as;
  ecx_shape s = in->shape;
  for (size_t d = 0; d < s.rank; d++) s.dims[d] += before[d] + after[d];
  enum xnn_status status =
      in->scheme == ECX_PER_TENSOR
          ? xnn_define_quantized_tensor_value(b->subgraph, as, in->zero_point, in->scale, s.rank,
                                              s.dims, NULL, XNN_INVALID_VALUE_ID, 0, id)
          : xnn_define_tensor_value(b->subgraph, as, s.rank, s.dims, NULL, XNN_INVALID_VALUE_ID, 0,
                                    id);
  if (!status)
    status = xnn_define_static_constant_pad(b->subgraph, before, after, -__builtin_inff(),
                                            ecx_in_id(b, n, 0), *id, 0);
  return DONE(b, n, "xnn_define_static_constant_pad", status);
}

uint32_t ecx_define_max_pooling(ecx_builder *b, const ecx_node *n) {
  bool apart = ecx_pads_apart(n);
  uint32_t id = ecx_in_id(b, n, 0);
  if (apart) ECX_TRY(define_padded(b, n, &id));
  return DONE(b, n, "xnn_define_max_pooling_2d",
              xnn_define_max_pooling_2d(
                  b->subgraph, apart ? 0 : POOL(padding_top), apart ? 0 : POOL(padding_right),
                  apart ? 0 : POOL(padding_bottom), apart ? 0 : POOL(padding_left),
                  POOL(pooling_height), POOL(pooling_width), POOL(stride_height),
                  POOL(stride_width), POOL(dilation_height), POOL(dilation_width), n->min, n->max,
                  id, ecx_out_id(b, n, 0), n->flags));
}

uint32_t ecx_define_average_pooling(ecx_builder *b, const ecx_node *n) {
  return DONE(b, n, "xnn_define_average_pooling_2d",
              xnn_define_average_pooling_2d(
                  b->subgraph, POOL(padding_top), POOL(padding_right), POOL(padding_bottom),
                  POOL(padding_left), POOL(pooling_height), POOL(pooling_width),
                  POOL(stride_height), POOL(stride_width), n->min, n->max, ecx_in_id(b, n, 0),
                  ecx_out_id(b, n, 0), n->flags));
}

uint32_t ecx_define_argmax_pooling(ecx_builder *b, const ecx_node *n) {
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
