/* Arithmetic of two numbers. Integers wrap; integer division by zero is reported, not executed. */
#if EC_IS_BOOL
#define EC_ADD(x, y) ((x) || ((y) && EC_P(0)))
#define EC_MUL(x, y) ((x) && (y))
#elif EC_IS_FLOAT
#define EC_ADD(x, y) ((x) + EC_P(0) * (y))
#define EC_MUL(x, y) ((x) * (y))
#elif EC_IS_COMPLEX
/* As in eager PyTorch, alpha is alpha + 0i. */
static inline EC_C EC_FN(add_times)(EC_C x, __typeof__(__real__ (EC_C)0) alpha, EC_C y) {
  EC_C z;
  __real__ z = __real__ x + (alpha * __real__ y + -0.0f * __imag__ y);
  __imag__ z = __imag__ x + (alpha * __imag__ y + 0.0f * __real__ y);
  return z;
}
#define EC_ADD(x, y) EC_FN(add_times)(x, __real__ EC_P(0), y)
#define EC_MUL(x, y) ec_times(x, y)
#else
#define EC_ADD(x, y) ((EC_T)((EC_U)(x) + (EC_U)EC_P(0) * (EC_U)(y)))
#define EC_MUL(x, y) ((EC_T)((EC_U)(x) * (EC_U)(y)))
#endif

#define EC_NAME add
#define EC_LOOP_FLOAT_CLONES
#define EC_EXPR(x, y) EC_ADD(x, y)
#include "kernels/pointwise/loop2.h"
#if !EC_IS_BOOL
#define EC_NAME add_to
#define EC_LOOP_FLOAT_CLONES
#define EC_EXPR(x, y) EC_ADD(y, x)
#include "kernels/pointwise/loop2.h"
#endif
#define EC_NAME mul
#define EC_LOOP_FLOAT_CLONES
#define EC_EXPR(x, y) EC_MUL(x, y)
#include "kernels/pointwise/loop2.h"

#undef EC_ADD
#undef EC_MUL

#if EC_IS_FLOAT || EC_IS_COMPLEX
#define EC_NAME div
#if EC_IS_COMPLEX
#define EC_LOOP_CLONES
#endif
#define EC_EXPR(x, y) ec_over(x, y)
#include "kernels/pointwise/loop2.h"
#endif

#if !EC_IS_COMPLEX
#if EC_IS_BOOL /* the form that compilers vectorise */
#define EC_LARGER(x, y) ((x) | (y))
#define EC_SMALLER(x, y) ((x) & (y))
#else
#define EC_LARGER(x, y) ((x) > (y) ? (x) : (y))
#define EC_SMALLER(x, y) ((x) < (y) ? (x) : (y))
#endif

/* Propagates a NaN on either side. */
#define EC_NAME maximum
#define EC_LOOP_FLOAT_CLONES
#if EC_IS_FLOAT
#define EC_EXPR(x, y) ((x) > (y) || isnan(x) ? (x) : (y))
#else
#define EC_EXPR(x, y) EC_LARGER(x, y)
#endif
#include "kernels/pointwise/loop2.h"
#define EC_NAME minimum
#define EC_LOOP_FLOAT_CLONES
#if EC_IS_FLOAT
#define EC_EXPR(x, y) ((x) < (y) || isnan(x) ? (x) : (y))
#else
#define EC_EXPR(x, y) EC_SMALLER(x, y)
#endif
#include "kernels/pointwise/loop2.h"
/* A number wins over NaN. Of equal numbers (zeros of either sign) the first wins. */
#define EC_NAME fmax_of
#if EC_IS_FLOAT
#define EC_EXPR(x, y) ((y) > (x) || isnan(x) ? (y) : (x))
#else
#define EC_EXPR(x, y) EC_LARGER(x, y)
#endif
#include "kernels/pointwise/loop2.h"
#define EC_NAME fmin_of
#if EC_IS_FLOAT
#define EC_EXPR(x, y) ((y) < (x) || isnan(x) ? (y) : (x))
#else
#define EC_EXPR(x, y) EC_SMALLER(x, y)
#endif
#include "kernels/pointwise/loop2.h"
#undef EC_LARGER
#undef EC_SMALLER
#endif

#if EC_IS_FLOAT
/* Python's floor division: exact if x - mod is a multiple of y. */
static inline EC_C EC_FN(floor_quotient)(EC_C x, EC_C y) {
  if (y == 0) return x / y;
  EC_C mod = fmod(x, y), quotient = (x - mod) / y;
  if (mod != 0 && (y < 0) != (mod < 0)) quotient -= 1;
  if (quotient == 0) return copysign((EC_C)0, x / y);
  EC_C down = floor(quotient);
  return quotient - down > (EC_C)0.5 ? down + 1 : down;
}

static inline EC_C EC_FN(modulo)(EC_C x, EC_C y) {
  EC_C mod = fmod(x, y);
  return mod != 0 && (y < 0) != (mod < 0) ? mod + y : mod;
}

#define EC_NAME div_floor
#define EC_EXPR(x, y) EC_FN(floor_quotient)(x, y)
#include "kernels/pointwise/loop2.h"
#define EC_NAME div_trunc
#define EC_EXPR(x, y) trunc((x) / (y))
#include "kernels/pointwise/loop2.h"
#define EC_NAME remainder
#define EC_EXPR(x, y) EC_FN(modulo)(x, y)
#include "kernels/pointwise/loop2.h"
#define EC_NAME fmod
#define EC_EXPR(x, y) fmod(x, y)
#include "kernels/pointwise/loop2.h"

#elif !EC_IS_COMPLEX && !EC_IS_BOOL
/* The two divisions that C does not define: by zero, and of the minimum by -1 (which wraps). */
static inline EC_T EC_FN(quotient)(EC_T x, EC_T y, ec_params *params) {
  if (y == 0) params->zero_division = true;
  if (y == 0) return 0;
#if EC_IS_SIGNED
  if (y == -1) return (EC_T)(0 - (EC_U)x);
#endif
  return (EC_T)(x / y);
}

static inline EC_T EC_FN(fmod_of)(EC_T x, EC_T y, ec_params *params) {
  if (y == 0) params->zero_division = true;
  if (y == 0) return 0;
#if EC_IS_SIGNED
  if (y == -1) return 0;
#endif
  return (EC_T)(x % y);
}

#if EC_IS_SIGNED
static inline EC_T EC_FN(floor_quotient)(EC_T x, EC_T y, ec_params *params) {
  const EC_T q = EC_FN(quotient)(x, y, params);
  const EC_U left = (EC_U)x - (EC_U)q * (EC_U)y; /* no branch, because signs are hard to predict */
  return (EC_T)((EC_U)q - (EC_U)(((EC_T)left != 0) & ((x ^ y) < 0)));
}

static inline EC_T EC_FN(modulo)(EC_T x, EC_T y, ec_params *params) {
  const EC_T r = EC_FN(fmod_of)(x, y, params);
  const EC_U other_side = (EC_U)((r != 0) & ((r ^ y) < 0));
  return (EC_T)((EC_U)r + ((EC_U)y & (0 - other_side)));
}
#else
#define floor_quotient quotient
#define modulo fmod_of
#endif

#define EC_NAME div_floor
#define EC_EXPR(x, y) EC_FN(floor_quotient)(x, y, params)
#include "kernels/pointwise/loop2.h"
#define EC_NAME div_trunc
#define EC_EXPR(x, y) EC_FN(quotient)(x, y, params)
#include "kernels/pointwise/loop2.h"
#define EC_NAME remainder
#define EC_EXPR(x, y) EC_FN(modulo)(x, y, params)
#include "kernels/pointwise/loop2.h"
#define EC_NAME fmod
#define EC_EXPR(x, y) EC_FN(fmod_of)(x, y, params)
#include "kernels/pointwise/loop2.h"

/* As in eager PyTorch, magnitudes wrap: the magnitude of the minimum stays negative. */
static inline EC_T EC_FN(magnitude)(EC_T x) {
#if EC_IS_SIGNED
  return x < 0 ? (EC_T)(0 - (EC_U)x) : x;
#else
  return x;
#endif
}

static inline EC_T EC_FN(gcd_of)(EC_T x, EC_T y, ec_params *params) {
  EC_T a = EC_FN(magnitude)(x), b = EC_FN(magnitude)(y);
  while (a != 0) {
    const EC_T r = EC_FN(fmod_of)(b, a, params);
    b = a;
    a = r;
  }
  return b;
}

static inline EC_T EC_FN(lcm_of)(EC_T x, EC_T y, ec_params *params) {
  const EC_T g = EC_FN(gcd_of)(x, y, params);
  if (g == 0) return 0;
  const EC_U product = (EC_U)EC_FN(quotient)(x, g, params) * (EC_U)y;
#if EC_IS_SIGNED
  return (EC_T)(product > (EC_U)-1 / 2 ? 0 - product : product);
#else
  return (EC_T)product;
#endif
}

#define EC_NAME gcd
#define EC_EXPR(x, y) EC_FN(gcd_of)(x, y, params)
#include "kernels/pointwise/loop2.h"
#define EC_NAME lcm
#define EC_EXPR(x, y) EC_FN(lcm_of)(x, y, params)
#include "kernels/pointwise/loop2.h"
#if !EC_IS_SIGNED
#undef floor_quotient
#undef modulo
#endif
#endif
