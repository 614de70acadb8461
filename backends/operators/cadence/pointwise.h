/* Operators that compute each element by itself. */
#ifndef CADENCE_POINTWISE_H
#define CADENCE_POINTWISE_H

#include "call.h"

uint32_t cad_quantize_per_tensor(const cad_call *c);
uint32_t cad_dequantize_per_tensor(const cad_call *c);
uint32_t cad_requantize(const cad_call *c);
uint32_t cad_quantized_relu(const cad_call *c);
uint32_t cad_quantized_add_scalar(const cad_call *c);
uint32_t cad_quantized_mul_scalar(const cad_call *c);
uint32_t cad_where_scalar(const cad_call *c);

#endif
