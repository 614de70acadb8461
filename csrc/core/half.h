/* float16 and bfloat16 <-> float32, IEEE 754 round to nearest even. The code is nearly branch-free,
 * so that loops vectorise on machines without conversion instructions. */
#ifndef EC_CORE_HALF_H
#define EC_CORE_HALF_H

#include <stdint.h>
#include <string.h>

static inline uint32_t ec_float_bits(float f) {
  uint32_t u;
  memcpy(&u, &f, sizeof u);
  return u;
}

static inline float ec_bits_float(uint32_t u) {
  float f;
  memcpy(&f, &u, sizeof f);
  return f;
}

static inline float ec_bf16_to_f32(uint16_t h) { return ec_bits_float((uint32_t)h << 16); }

static inline uint16_t ec_f32_to_bf16(float f) {
  uint32_t u = ec_float_bits(f);
  uint32_t rounded = (u + 0x7fffu + (u >> 16 & 1u)) >> 16;
  uint32_t is_nan = (u & 0x7fffffffu) > 0x7f800000u;
  return (uint16_t)(is_nan ? (u >> 16 | 0x40u) : rounded);
}

/* A multiplication shifts the exponent and normalises subnormals. */
static inline float ec_f16_to_f32(uint16_t h) {
  uint32_t sign = (uint32_t)(h & 0x8000u) << 16;
  uint32_t bits = (uint32_t)(h & 0x7fffu) << 13;
  float scaled = ec_bits_float(bits) * 0x1p112f;
  uint32_t finite = ec_float_bits(scaled);
  uint32_t special = bits | 0x7f800000u; /* infinity or NaN keeps its payload */
  return ec_bits_float(sign | ((h & 0x7c00u) == 0x7c00u ? special : finite));
}

/* The added power of two has its last bit where float16 has its own at this magnitude, so the
 * addition rounds, subnormals included. */
static inline uint16_t ec_f32_to_f16(float f) {
  uint32_t u = ec_float_bits(f);
  uint32_t sign = u >> 16 & 0x8000u, mag = u & 0x7fffffffu;
  uint32_t subnormal = ec_float_bits(ec_bits_float(mag) + 0.5f) - 0x3f000000u;
  uint32_t normal = (mag - 0x38000000u + 0xfffu + (mag >> 13 & 1u)) >> 13;
  uint32_t nan = 0x7e00u | (mag >> 13 & 0x1ffu);
  uint32_t out = mag < 0x38800000u ? subnormal : normal;
  out = mag >= 0x477ff000u ? 0x7c00u : out; /* rounds to infinity */
  out = mag > 0x7f800000u ? nan : out;
  return (uint16_t)(sign | out);
}

#endif
