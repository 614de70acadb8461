/* Operators that compute each element by itself. */
#ifndef CORTEX_M_POINTWISE_H
#define CORTEX_M_POINTWISE_H

#include "arguments.h"

uint32_t cm_quantize_per_tensor(const cm_call *c);
uint32_t cm_dequantize_per_tensor(const cm_call *c);
uint32_t cm_quantized_add(const cm_call *c);
uint32_t cm_quantized_mul(const cm_call *c);
uint32_t cm_quantized_div(const cm_call *c);
uint32_t cm_quantized_activation(const cm_call *c);
uint32_t cm_minimum(const cm_call *c);
uint32_t cm_maximum(const cm_call *c);

#endif
