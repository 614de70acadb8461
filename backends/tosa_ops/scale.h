/* TOSA's multiplication by a scale, multiplier / 2 ** shift. */
#ifndef ETO_SCALE_H
#define ETO_SCALE_H

#include "call.h"

/* `shift` is 1 to 62. */
static inline int64_t eto_scale(int64_t x, int64_t multiplier, int shift, bool is_double) {
  int64_t round = INT64_C(1) << (shift - 1);
  if (is_double && shift > 31) round += x >= 0 ? INT64_C(1) << 30 : -(INT64_C(1) << 30);
  return eto_add(eto_multiply(x, multiplier), round) >> shift;
}

#endif
