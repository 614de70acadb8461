/* The fixed-point rescaling of CMSIS-NN (arm_nn_requantize). */
#ifndef CORTEX_M_REQUANTIZE_H
#define CORTEX_M_REQUANTIZE_H

#include "arguments.h"

#include <math.h>

/* The factor multiplier * 2^(left - right) / 2^31; one of left and right is 0. */
typedef struct cm_factor {
  int32_t multiplier;
  uint8_t left, right;
} cm_factor;

/* Returns whether a shift is one of CMSIS-NN's: a larger one has no meaning for int32. */
static inline bool cm_shift_valid(int64_t shift) { return shift >= -31 && shift <= 31; }

static inline cm_factor cm_factor_of(int32_t multiplier, int64_t shift) {
  return (cm_factor){multiplier, (uint8_t)(shift > 0 ? shift : 0),
                     (uint8_t)(shift < 0 ? -shift : 0)};
}

/* Returns value * factor, rounded half up at 2^-31, then half away from zero at the right shift.
 * Products wrap at 64 bits and the result at 32, as in the flow's reference. */
static inline int32_t cm_requantize(int32_t value, cm_factor factor) {
  const uint64_t shifted = (uint64_t)(int64_t)value << factor.left;
  const uint64_t product = shifted * (uint64_t)(int64_t)factor.multiplier + (UINT64_C(1) << 30);
  const int64_t high = (int64_t)product >> 31;
  const int64_t mask = (INT64_C(1) << factor.right) - 1;
  const int64_t result = high >> factor.right;
  const int64_t threshold = (mask >> 1) + (result < 0);
  return (int32_t)(uint32_t)(uint64_t)(result + ((high & mask) > threshold));
}

/* Returns a + b, which wraps. */
static inline int32_t cm_add(int32_t a, int32_t b) { return (int32_t)((uint32_t)a + (uint32_t)b); }

static inline int32_t cm_clamp(int32_t value, int32_t low, int32_t high) {
  const int32_t above = value < low ? low : value;
  return above > high ? high : above;
}

/* Returns a float within limits; 0 for NaN. */
static inline float cm_clamp_float(float value, float low, float high) {
  return value < low ? low : value > high ? high : isnan(value) ? 0 : value;
}

/* Sets a factor. `name` says which one in the message for a multiplier or a shift out of range. */
uint32_t cm_set_factor(const cm_call *c, const char *name, int64_t multiplier, int64_t shift,
                       cm_factor *out);

/* Reads the factor of the int arguments `i` (multiplier) and `i + 1` (shift). */
uint32_t cm_read_factor(const cm_call *c, size_t i, const char *name, cm_factor *out);

/* Checks the factors of `count` channels in the tensors `i` (multipliers) and `i + 1` (shifts). */
uint32_t cm_check_factors(const cm_call *c, size_t i, int64_t count);

#endif
