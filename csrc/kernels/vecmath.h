/* Vectorisable elementary functions of float: no branches, no tables. */
#ifndef EC_KERNELS_VECMATH_H
#define EC_KERNELS_VECMATH_H

#include "core/half.h"

/* e^x within 1 unit in the last place, subnormal results included; NaN stays NaN.
 * x = n ln 2 + r with |r| <= ln(2) / 2; e^r by its series; 2^n in two factors, so that neither
 * leaves the normal numbers. Adding 1.5 * 2^23 rounds to an integer and leaves it in the low bits,
 * so no conversion is needed, even for NaN. */
static inline float ec_exp_f32(float x) {
  x = x < -104.0f ? -104.0f : x;
  x = x > 89.0f ? 89.0f : x;
  float shifted = x * 1.44269504f + 0x1.8p23f;
  float n = shifted - 0x1.8p23f;
  float r = x - n * 0x1.62e4p-1f; /* ln 2 in two parts: the first product is exact */
  r -= n * 0x1.7f7d1cp-20f;
  float p = 1.0f / 5040;
  p = p * r + 1.0f / 720;
  p = p * r + 1.0f / 120;
  p = p * r + 1.0f / 24;
  p = p * r + 1.0f / 6;
  p = p * r + 0.5f;
  p = p * r * r + r + 1.0f;
  int32_t whole = (int32_t)(ec_float_bits(shifted) - 0x4b400000u);
  int32_t half = whole >> 1;
  float a = ec_bits_float((uint32_t)(half + 127) << 23);
  float b = ec_bits_float((uint32_t)(whole - half + 127) << 23);
  return p * a * b;
}

#endif
