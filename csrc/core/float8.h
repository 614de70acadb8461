/* The four float8 formats <-> float32, round to nearest even: a sign, then EXPONENT bits with a
 * bias, then MANTISSA bits. What is too large becomes the format's infinity or NaN; float8_e4m3fn
 * saturates, as in PyTorch. */
#ifndef EC_CORE_FLOAT8_H
#define EC_CORE_FLOAT8_H

#include <math.h>

#include "core/half.h"

typedef struct ec_f8_format {
  int mantissa, bias;
  uint8_t largest; /* the largest finite number */
  uint8_t over;    /* the result of larger ones, without a sign if it is `nan` */
  uint8_t nan;
  bool has_zero_sign; /* without it (fnuz), the code of -0 is NaN */
} ec_f8_format;

#define EC_F8_E5M2 ((ec_f8_format){2, 15, 0x7b, 0x7c, 0x7f, true})
#define EC_F8_E4M3FN ((ec_f8_format){3, 7, 0x7e, 0x7e, 0x7f, true})
#define EC_F8_E5M2FNUZ ((ec_f8_format){2, 16, 0x7f, 0x80, 0x80, false})
#define EC_F8_E4M3FNUZ ((ec_f8_format){3, 8, 0x7f, 0x80, 0x80, false})

/* Returns the power of two; `n` is an exponent of a normal float32. */
static inline float ec_exp2i(int n) { return ec_bits_float((uint32_t)(n + 127) << 23); }

static inline float ec_f8_to_f32(uint8_t code, ec_f8_format f) {
  const uint32_t magnitude = code & 0x7fu;
  const bool is_infinite = magnitude > f.largest && magnitude == f.over;
  const bool is_nan = f.has_zero_sign ? magnitude > f.largest && !is_infinite : code == 0x80;
  if (is_nan) return NAN;
  if (is_infinite) return code & 0x80 ? -INFINITY : INFINITY;
  /* the multiplication shifts the exponent and normalises subnormals */
  const float value = ec_bits_float(magnitude << (23 - f.mantissa)) * ec_exp2i(127 - f.bias);
  return code & 0x80 ? -value : value;
}

static inline uint8_t ec_f32_to_f8(float x, ec_f8_format f) {
  const uint32_t bits = ec_float_bits(x), magnitude = bits & 0x7fffffffu;
  const uint32_t sign = bits >> 24 & 0x80u, shift = 23 - (uint32_t)f.mantissa;
  const uint32_t least_normal = ec_float_bits(ec_exp2i(1 - f.bias));
  uint32_t code;
  if (magnitude > 0x7f800000u) return f.nan;
  if (magnitude < least_normal) {
    /* the sum has its last bit where subnormals have theirs, so the addition rounds */
    const float unit = ec_exp2i(24 - f.bias - f.mantissa);
    code = ec_float_bits(ec_bits_float(magnitude) + unit) - ec_float_bits(unit);
  } else {
    code = (magnitude + (1u << (shift - 1)) - 1 + (magnitude >> shift & 1u)) >> shift;
    code -= (uint32_t)(127 - f.bias) << f.mantissa;
  }
  if (code > f.largest) code = f.over;
  return (uint8_t)(code | (f.has_zero_sign || code ? sign : 0));
}

#endif
