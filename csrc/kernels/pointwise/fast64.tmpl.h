/* float64 loops that vectorise on machines with a fused multiply-add. */

/* fmod(x, y). Below 2^53 the rounded quotient is at most one too large. The remainder is then a
 * multiple of the smaller number's last place and not larger than y, so that neither the fused
 * product nor the correcting sum rounds. */
EC_INLINE double fmod_of_float64(double x, double y, uint64_t *rare) {
  const double a = fabs(x), b = fabs(y), q = trunc(a / b);
  const double left = __builtin_fma(-q, b, a), mended = left + b;
  *rare = (uint64_t) !((q < 0x1p53) & (b < (double)INFINITY));
  return copysign(left < 0 ? mended : left, x);
}
#define EC_FMOD_FLAG uint64_t
#include "kernels/pointwise/fmod.tmpl.h"
#undef EC_FMOD_FLAG
