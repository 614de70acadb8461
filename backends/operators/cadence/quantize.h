/* Affine quantisation in float32, as quantized_decomposed computes it:
 * clamp(round(x * (float)(1 / scale)) + zero, low, high), with halves to even numbers. */
#ifndef CADENCE_QUANTIZE_H
#define CADENCE_QUANTIZE_H

#include "call.h"

#include <math.h>

typedef struct cad_quantizer {
  float inverse, zero, low, high;
} cad_quantizer;

/* Returns the quantizer of a dtype's range; the greatest int32 is the greatest float below 2^31. */
cad_quantizer cad_quantizer_of(double inverse, int32_t zero, int32_t dtype);

/* Reads out_multiplier and out_shift, the arguments `i` and `i + 1`: the factor
 * out_multiplier * 2^(out_shift - 31), as the flow's reference rounds it. (The flow's reference
 * has the other sign: its (1 << 31) was an int in C++, and is positive in Python.) */
uint32_t cad_read_factor(const cad_call *c, size_t i, double *factor);

/* Returns a float within limits; 0 for NaN. */
static inline float cad_quantize(const cad_quantizer *q, float x) {
  const float value = nearbyintf(x * q->inverse) + q->zero;
  return value < q->low ? q->low : value > q->high ? q->high : isnan(value) ? 0 : value;
}

#endif
