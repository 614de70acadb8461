/* Pooling of int8 images. */
#ifndef CORTEX_M_POOL_H
#define CORTEX_M_POOL_H

#include "arguments.h"

uint32_t cm_quantized_avg_pool2d(const cm_call *c);
uint32_t cm_quantized_avg_pool2d_nhwc(const cm_call *c);
uint32_t cm_quantized_max_pool2d(const cm_call *c);
uint32_t cm_quantized_max_pool2d_nhwc(const cm_call *c);

#endif
