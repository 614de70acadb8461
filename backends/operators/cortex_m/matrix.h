/* Products of int8 matrices. */
#ifndef CORTEX_M_MATRIX_H
#define CORTEX_M_MATRIX_H

#include "arguments.h"

uint32_t cm_quantized_linear(const cm_call *c);
uint32_t cm_quantized_batch_matmul(const cm_call *c);

#endif
