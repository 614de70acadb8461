/* Convolutions and pooling of int8 images. */
#ifndef CORTEX_M_WINDOW_H
#define CORTEX_M_WINDOW_H

#include "arguments.h"

/* Each operator has two forms: images are [N, C, H, W] in any layout, or [N, H, W, C]. */
uint32_t cm_quantized_conv2d(const cm_call *c);
uint32_t cm_quantized_conv2d_nhwc(const cm_call *c);
uint32_t cm_quantized_depthwise_conv2d(const cm_call *c);
uint32_t cm_quantized_depthwise_conv2d_nhwc(const cm_call *c);
uint32_t cm_quantized_transpose_conv2d(const cm_call *c);
uint32_t cm_quantized_transpose_conv2d_nhwc(const cm_call *c);

#endif
