/* Functions of floating-point numbers; <tgmath.h> selects the one for the type. */
#define EC_NAME point_exp
#define EC_EXPR(x) exp(x)
#include "kernels/pointwise/loop1.h"
#define EC_NAME point_log
#define EC_EXPR(x) log(x)
#include "kernels/pointwise/loop1.h"
#define EC_NAME point_sqrt
#define EC_EXPR(x) sqrt(x)
#include "kernels/pointwise/loop1.h"
#define EC_NAME point_sin
#define EC_EXPR(x) sin(x)
#include "kernels/pointwise/loop1.h"
#define EC_NAME point_cos
#define EC_EXPR(x) cos(x)
#include "kernels/pointwise/loop1.h"
#define EC_NAME point_tan
#define EC_EXPR(x) tan(x)
#include "kernels/pointwise/loop1.h"
#define EC_NAME point_asin
#define EC_EXPR(x) asin(x)
#include "kernels/pointwise/loop1.h"
#define EC_NAME point_acos
#define EC_EXPR(x) acos(x)
#include "kernels/pointwise/loop1.h"
#define EC_NAME point_atan
#define EC_EXPR(x) atan(x)
#include "kernels/pointwise/loop1.h"
#define EC_NAME point_sinh
#define EC_EXPR(x) sinh(x)
#include "kernels/pointwise/loop1.h"
#define EC_NAME point_cosh
#define EC_EXPR(x) cosh(x)
#include "kernels/pointwise/loop1.h"
#define EC_NAME point_tanh
#define EC_EXPR(x) tanh(x)
#include "kernels/pointwise/loop1.h"
#define EC_NAME point_asinh
#define EC_EXPR(x) asinh(x)
#include "kernels/pointwise/loop1.h"
#define EC_NAME point_acosh
#define EC_EXPR(x) acosh(x)
#include "kernels/pointwise/loop1.h"
#define EC_NAME point_atanh
#define EC_EXPR(x) atanh(x)
#include "kernels/pointwise/loop1.h"
#define EC_NAME point_rsqrt
#define EC_EXPR(x) ec_over((EC_C)1, sqrt(x))
#include "kernels/pointwise/loop1.h"
#define EC_NAME point_reciprocal
#define EC_EXPR(x) ec_over((EC_C)1, x)
#include "kernels/pointwise/loop1.h"
#define EC_NAME point_sigmoid
#define EC_EXPR(x) ec_over((EC_C)1, (EC_C)1 + exp(-(x)))
#include "kernels/pointwise/loop1.h"

#if EC_IS_COMPLEX /* functions missing from <complex.h> */
/* e^a cos b - 1 = (e^a - 1) cos b - 2 sin^2(b/2), which needs only the half angle. */
static inline EC_C EC_FN(expm1_of)(EC_C x) {
  typedef __typeof__(__real__ x) part;
  const part a = __real__ x, grown = expm1(a), s = sin(__imag__ x / 2), c = cos(__imag__ x / 2);
  EC_C z;
  __real__ z = grown * (1 - 2 * s * s) - 2 * s * s;
  __imag__ z = (a < -1 ? exp(a) : grown + 1) * (2 * s * c);
  return z;
}

#define EC_NAME point_expm1
#define EC_EXPR(x) EC_FN(expm1_of)(x)
#include "kernels/pointwise/loop1.h"
#define EC_NAME point_exp2
#define EC_EXPR(x) exp((x) * (__typeof__(__real__(x)))0x1.62e42fefa39efp-1)
#include "kernels/pointwise/loop1.h"
#define EC_NAME point_log1p
#define EC_EXPR(x) ec_log1p(x)
#include "kernels/pointwise/loop1.h"
#define EC_NAME point_log2
#define EC_EXPR(x) (log(x) / (__typeof__(__real__(x)))0x1.62e42fefa39efp-1)
#include "kernels/pointwise/loop1.h"
#define EC_NAME point_log10
#define EC_EXPR(x) (log(x) / (__typeof__(__real__(x)))0x1.26bb1bbb55516p+1)
#include "kernels/pointwise/loop1.h"
#else
#define EC_NAME point_expm1
#define EC_EXPR(x) expm1(x)
#include "kernels/pointwise/loop1.h"
#define EC_NAME point_log1p
#define EC_EXPR(x) log1p(x)
#include "kernels/pointwise/loop1.h"
#define EC_NAME point_log2
#define EC_EXPR(x) log2(x)
#include "kernels/pointwise/loop1.h"
#define EC_NAME point_log10
#define EC_EXPR(x) log10(x)
#include "kernels/pointwise/loop1.h"
#define EC_NAME point_erf
#define EC_EXPR(x) erf(x)
#include "kernels/pointwise/loop1.h"
#define EC_NAME point_exp2
#define EC_EXPR(x) exp2(x)
#include "kernels/pointwise/loop1.h"
#define EC_NAME point_erfc
#define EC_EXPR(x) erfc(x)
#include "kernels/pointwise/loop1.h"
#define EC_NAME point_hypot
#define EC_EXPR(x, y) hypot(x, y)
#include "kernels/pointwise/loop2.h"
#define EC_NAME point_copysign
#define EC_EXPR(x, y) copysign(x, y)
#include "kernels/pointwise/loop2.h"
#define EC_NAME point_atan2
#define EC_EXPR(x, y) atan2(x, y)
#include "kernels/pointwise/loop2.h"
#define EC_NAME point_logit /* EC_P(0) is eps; negative: no clamp */
#define EC_EXPR(x) EC_FN(logit_of)(x, EC_P(0))
static inline EC_C EC_FN(logit_of)(EC_C x, EC_C eps) {
  EC_C z = x;
  if (eps >= 0) z = x < eps ? eps : x > 1 - eps ? 1 - eps : x;
  return log(z / (1 - z));
}
#include "kernels/pointwise/loop1.h"
#endif
