/* Convolutions, pooling and resizing. */
#include "nodes.h"

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

uint32_t ecx_define_max_pooling(ecx_builder *b, const ecx_node *n) {
  return DONE(b, n, "xnn_define_max_pooling_2d",
              xnn_define_max_pooling_2d(
                  b->subgraph, POOL(padding_top), POOL(padding_right), POOL(padding_bottom),
                  POOL(padding_left), POOL(pooling_height), POOL(pooling_width),
                  POOL(stride_height), POOL(stride_width), POOL(dilation_height),
                  POOL(dilation_width), n->min, n->max, ecx_in_id(b, n, 0), ecx_out_id(b, n, 0),
                  n->flags));
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
