/* TOSA's multiplication by a scale, multiplier / 2 ** shift. */
#ifndef ETO_SCALE_H
#define ETO_SCALE_H

#include "call.h"

/* RoundingMode of the schema. */
typedef enum eto_rounding { ETO_SINGLE = 1, ETO_INEXACT = 2, ETO_DOUBLE = 3 } eto_rounding;

/* `shift` is 1 to 62. ETO_INEXACT, whose last bit devices may choose, is ETO_SINGLE. */
static inline int64_t eto_scale(int64_t x, int64_t multiplier, int shift, eto_rounding rounding) {
  int64_t round = INT64_C(1) << (shift - 1);
  if (rounding == ETO_DOUBLE && shift > 31)
    round += x >= 0 ? INT64_C(1) << 30 : -(INT64_C(1) << 30);
  return eto_add(eto_multiply(x, multiplier), round) >> shift;
}

#endif
