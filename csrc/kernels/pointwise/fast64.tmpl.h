/* float64 loops that vectorise, where a fused multiply-add is an instruction. */

/* fmod(x, y). Below 2^53 the rounded quotient reaches at most the next integer, one too many; what
 * is left then is a multiple of the smaller number's last place that is not larger than y, so that
 * neither the fused product nor the sum that mends it is rounded. */
EC_INLINE double fmod_of_float64(double x, double y, uint64_t *rare) {
  const double a = fabs(x), b = fabs(y), q = trunc(a / b);
  const double left = __builtin_fma(-q, b, a), mended = left + b;
  *rare = (uint64_t) !((q < 0x1p53) & (b < (double)INFINITY));
  return copysign(left < 0 ? mended : left, x);
}
#define EC_FMOD_FLAG uint64_t
#include "kernels/pointwise/fmod.tmpl.h"
#undef EC_FMOD_FLAG
