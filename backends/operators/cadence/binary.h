/* Sums and products of two quantised tensors, with broadcasting. */
#ifndef CADENCE_BINARY_H
#define CADENCE_BINARY_H

#include "call.h"

uint32_t cad_quantized_add(const cad_call *c);
uint32_t cad_quantized_mul(const cad_call *c);

/* Sets the shape that two tensors broadcast to; `last` dimensions at the end are left out. */
uint32_t cad_broadcast(const cad_call *c, const cad_tensor *a, const cad_tensor *b, size_t last,
                       size_t *rank, int64_t *sizes);
/* Returns the index of the element of `t`, broadcast to the shape, at the row-major index `at`. */
int64_t cad_broadcast_index(const cad_tensor *t, size_t last, size_t rank, const int64_t *sizes,
                            int64_t at);

#endif
