/* Affine quantisation, rounded as torch does: half to even, multiplied by the reciprocal. */
#ifndef EVO_QUANTIZE_H
#define EVO_QUANTIZE_H

#include <math.h>
#include <stdint.h>

typedef struct evo_affine {
  float scale, inverse;
  float zero_point;
} evo_affine;

static inline evo_affine evo_affine_of(double scale, int64_t zero_point) {
  return (evo_affine){(float)scale, (float)(1.0 / scale), (float)zero_point};
}

static inline float evo_dequantize(int8_t q, const evo_affine *a) {
  return ((float)q - a->zero_point) * a->scale;
}

/* NaN becomes the least value. */
static inline int8_t evo_quantize(float x, const evo_affine *a) {
  const float q = nearbyintf(x * a->inverse) + a->zero_point;
  return (int8_t)(q >= 127 ? 127 : q > -128 ? q : -128);
}

#endif
