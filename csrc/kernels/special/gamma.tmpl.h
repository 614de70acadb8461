/* Functions related to gamma and erf for floating-point dtypes. Included after bessel.tmpl.h, whose
 * evaluators it uses. */
static inline EC_C EC_FN(lgamma_of)(EC_C x) {
  int sign;
  return sizeof x == 4 ? (EC_C)lgammaf_r((float)x, &sign) : (EC_C)lgamma_r((double)x, &sign);
}

/* Reflection below 0, recurrence below 10, then the asymptotic series (A&S 6.3.18). */
static EC_C EC_FN(digamma_of)(EC_C x) {
  EC_C y = 0, reflected = 0;
  if (x == 0) return copysign(K(INFINITY), -x);
  if (x < 0) {
    if (x == trunc(x)) return K(NAN);
    const double pi = 0x1.921fb54442d18p+1;
    reflected = (EC_C)(pi / tan(pi * (double)(x - trunc(x))));
    x = 1 - x;
  }
  for (; x < 10; x += 1) y -= 1 / x;
  const EC_C z = 1 / (x * x), rest = x < K(1e17) ? z * POLY(z, digamma_series) : 0;
  if (x == 10) y += K(2.25175258906672110764); /* digamma(10) */
  else y += log(x) - K(0.5) / x - rest;
  return y - reflected;
}

static EC_C EC_FN(trigamma_of)(EC_C x) {
  const EC_C pi = K(0x1.921fb54442d18p+1);
  EC_C y = 0, sign = 1;
  if (x < K(0.5)) {
    const EC_C s = sin(pi * x);
    y = -pi * pi / (s * s);
    sign = -1;
    x = 1 - x;
  }
  for (int i = 0; i < 6; i++, x += 1) y += 1 / (x * x);
  const EC_C z = 1 / (x * x), high = K(1. / 30) - z * K(1. / 42);
  return sign * (y + (1 + 1 / (2 * x) + z * (K(1. / 6) - z * high)) / x);
}

/* A rational initial value and two steps of Newton's method (G. Pavlis, MATLAB's erfinv.m). */
static EC_C EC_FN(erfinv_of)(EC_C y) {
  const EC_C a = fabs(y), slope = K(0x1.20dd750429b6dp+0); /* 2 / sqrt(pi) */
  EC_C x;
  if (!(a <= 1)) return K(NAN);
  if (a == 1) return copysign(K(INFINITY), y);
  if (a <= K(0.7)) {
    const EC_C z = y * y;
    x = y * RATIO(z, erfinv_p1, erfinv_q1);
  } else {
    const EC_C z = sqrt(-log((1 - a) / 2));
    x = copysign(POLY(z, erfinv_p2), y) / POLY(z, erfinv_q2);
  }
  for (int i = 0; i < 2; i++) x -= (erf(x) - y) / (slope * exp(-x * x));
  return x;
}

static EC_C EC_FN(ndtri_of)(EC_C p) {
  const EC_C edge = K(0.13533528323661269189); /* exp(-2) */
  if (p == 0 || p == 1) return p == 0 ? -K(INFINITY) : K(INFINITY);
  if (!(p > 0 && p < 1)) return K(NAN);
  const bool above = p > 1 - edge;
  const EC_C y = above ? 1 - p : p;
  if (y > edge) {
    const EC_C d = y - K(0.5), z = d * d;
    return (d + d * (z * RATIO(z, ndtri_p0, ndtri_q0))) * K(2.50662827463100050242);
  }
  const EC_C t = sqrt(-2 * log(y)), z = 1 / t;
  const EC_C x = t - log(t) / t -
                 z * (t < 8 ? RATIO(z, ndtri_p1, ndtri_q1) : RATIO(z, ndtri_p2, ndtri_q2));
  return above ? x : -x;
}

static EC_C EC_FN(erfcx_of)(EC_C x) {
  const EC_C a = fabs(x);
  EC_C y;
  if (x < K(-26.7)) return K(INFINITY);
  if (a < K(0.46875)) return exp(x * x) * erfc(x);
  if (a <= 4) {
    y = RATIO(a, erfcx_p1, erfcx_q1);
  } else {
    const EC_C z = 1 / (x * x);
    y = (K(0x1.20dd750429b6dp-1) - z * RATIO(z, erfcx_p2, erfcx_q2)) / a;
  }
  return x < 0 ? 2 * exp(x * x) - y : y;
}

#define EC_NAME lgamma_loop
#define EC_EXPR(x) EC_FN(lgamma_of)(x)
#include "kernels/pointwise/loop1.h"
#define EC_NAME digamma
#define EC_EXPR(x) EC_FN(digamma_of)(x)
#include "kernels/pointwise/loop1.h"
#define EC_NAME trigamma
#define EC_EXPR(x) EC_FN(trigamma_of)(x)
#include "kernels/pointwise/loop1.h"
#define EC_NAME polygamma /* of degree EC_P(0); EC_P(1) is (-1)^(n + 1) n! */
#define EC_EXPR(x) (EC_P(1) * (EC_C)ec_zeta((double)(EC_P(0) + 1), (double)(x)))
#include "kernels/pointwise/loop1.h"
#define EC_NAME erfinv
#define EC_EXPR(x) EC_FN(erfinv_of)(x)
#include "kernels/pointwise/loop1.h"
#define EC_NAME ndtri
#define EC_EXPR(x) EC_FN(ndtri_of)(x)
#include "kernels/pointwise/loop1.h"
#define EC_NAME erfcx
#define EC_EXPR(x) EC_FN(erfcx_of)(x)
#include "kernels/pointwise/loop1.h"
#define EC_NAME zeta
#define EC_EXPR(x, y) ((EC_C)ec_zeta((double)(x), (double)(y)))
#include "kernels/pointwise/loop2.h"
#define EC_NAME igamma
#define EC_EXPR(x, y) ((EC_C)ec_gamma_ratio((double)(x), (double)(y), false))
#include "kernels/pointwise/loop2.h"
#define EC_NAME igammac
#define EC_EXPR(x, y) ((EC_C)ec_gamma_ratio((double)(x), (double)(y), true))
#include "kernels/pointwise/loop2.h"
#undef K
#undef POLY
#undef RATIO
#undef SERIES
