/* Products of matrices. */
#ifndef CADENCE_PRODUCT_H
#define CADENCE_PRODUCT_H

#include "call.h"

uint32_t cad_quantized_linear(const cad_call *c);
uint32_t cad_quantized_fully_connected(const cad_call *c);
uint32_t cad_fully_connected(const cad_call *c);
uint32_t cad_quantized_matmul(const cad_call *c);
uint32_t cad_w8a32_linear(const cad_call *c);

#endif
