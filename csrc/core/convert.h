/* Floating point to integer without undefined behaviour: truncation. NaN and values outside the
 * range of the target's machine type become its minimum, as in x86's conversions. Narrow targets
 * take the low bits of int32, unsigned ones those of a signed type, as in eager PyTorch. The code
 * is branch-free, so that loops vectorise. */
#ifndef EC_CORE_CONVERT_H
#define EC_CORE_CONVERT_H

#include <stdint.h>

static inline int32_t ec_f32_to_i32(float x) {
  return (int32_t)(x >= -0x1p31f && x < 0x1p31f ? x : -0x1p31f);
}

static inline int32_t ec_f64_to_i32(double x) {
  return (int32_t)(x > -0x1p31 - 1 && x < 0x1p31 ? x : -0x1p31);
}

static inline int64_t ec_f32_to_i64(float x) {
  return (int64_t)(x >= -0x1p63f && x < 0x1p63f ? x : -0x1p63f);
}

static inline int64_t ec_f64_to_i64(double x) {
  return (int64_t)(x >= -0x1p63 && x < 0x1p63 ? x : -0x1p63);
}

static inline uint64_t ec_f64_to_u64(double x) {
  if (x >= 0x1p63) return x < 0x1p64 ? (uint64_t)x : 0;
  return (uint64_t)ec_f64_to_i64(x);
}

#endif
