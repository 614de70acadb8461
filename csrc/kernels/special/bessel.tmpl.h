/* Bessel functions and Ai for floating-point dtypes, with the intervals and coefficients of
 * Cephes. */
#define K(x) ((EC_C)(x))
#define POLY(x, table) EC_FN(poly)(x, table, EC_COUNT(table))
#define RATIO(x, p, q) (POLY(x, p) / POLY(x, q))
#define SERIES(x, table) EC_FN(series)(x, table, EC_COUNT(table))

static inline EC_C EC_FN(poly)(EC_C x, const double *c, size_t n) {
  EC_C y = 0;
  for (size_t i = 0; i < n; i++) y = y * x + K(c[i]);
  return y;
}

/* A Chebyshev series by Clenshaw's recurrence; x is twice the variable. */
static inline EC_C EC_FN(series)(EC_C x, const double *c, size_t n) {
  EC_C now = 0, last = 0, before = 0;
  for (size_t i = 0; i < n; i++) {
    before = last;
    last = now;
    now = x * last - before + K(c[i]);
  }
  return K(0.5) * (now - before);
}

static inline EC_C EC_FN(bessel_i)(EC_C x, bool first, bool scaled) {
  const EC_C a = fabs(x), factor = scaled ? 1 : exp(a);
  EC_C y;
  if (a <= 8) {
    const EC_C t = a / 2 - 2;
    y = factor * (first ? a * SERIES(t, i1_small) : SERIES(t, i0_small));
  } else {
    const EC_C t = 32 / a - 2;
    y = factor * (first ? SERIES(t, i1_large) : SERIES(t, i0_large)) / sqrt(a);
  }
  return first && x < 0 ? -y : y;
}

static inline EC_C EC_FN(bessel_k)(EC_C x, bool first, bool scaled) {
  if (x == 0) return K(INFINITY);
  if (x < 0) return K(NAN);
  if (x <= 2) {
    const EC_C t = x * x - 2, l = log(K(0.5) * x) * EC_FN(bessel_i)(x, first, false);
    const EC_C y = first ? l + SERIES(t, k1_small) / x : SERIES(t, k0_small) - l;
    return scaled ? y * exp(x) : y;
  }
  const EC_C t = 8 / x - 2, y = first ? SERIES(t, k1_large) : SERIES(t, k0_large);
  return (scaled ? y : exp(-x) * y) / sqrt(x);
}

/* Above 5: of the first kind (j) or the second (y). */
static EC_C EC_FN(hankel)(EC_C x, bool first, bool second) {
  const EC_C z = 25 / (x * x);
  const EC_C t = x - (first ? K(0x1.2d97c7f3321d2p+1) : K(0x1.921fb54442d18p-1)); /* pi / 4 */
  EC_C p = RATIO(z, bessel0_pp, bessel0_pq), q = RATIO(z, bessel0_qp, bessel0_qq);
  if (first) p = RATIO(z, bessel1_pp, bessel1_pq), q = RATIO(z, bessel1_qp, bessel1_qq);
  q *= 5 / x;
  const EC_C wave = second ? p * sin(t) + q * cos(t) : p * cos(t) - q * sin(t);
  return wave * K(0x1.9884533d43651p-1) / sqrt(x); /* sqrt(2 / pi) */
}

static inline EC_C EC_FN(j0_of)(EC_C signed_x) {
  const EC_C x = fabs(signed_x), z = x * x;
  if (!(x <= 5)) return EC_FN(hankel)(x, false, false);
  if (x < K(0.00001)) return 1 - z / 4;
  return (z - K(5.78318596294678452118)) * (z - K(30.4712623436620863991)) *
         RATIO(z, bessel0_rp, bessel0_rq); /* the first two zeros */
}

static inline EC_C EC_FN(j1_of)(EC_C x) {
  const EC_C a = fabs(x), z = a * a;
  EC_C y;
  if (a <= 5) y = RATIO(z, bessel1_rp, bessel1_rq) * a * (z - K(14.6819706421238932572)) *
        (z - K(49.2184563216946036703));
  else y = EC_FN(hankel)(a, true, false);
  return signbit(x) ? -y : y;
}

static EC_C EC_FN(bessel_y)(EC_C x, bool first) {
  const EC_C z = x * x, two_pi = K(0x1.45f306dc9c883p-1); /* 2 / pi */
  if (x == 0) return -K(INFINITY);
  if (x < 0) return K(NAN);
  if (!(x <= 5)) return EC_FN(hankel)(x, first, true);
  if (first)
    return x * RATIO(z, bessel1_yp, bessel1_yq) + two_pi * (EC_FN(j1_of)(x) * log(x) - 1 / x);
  return RATIO(z, bessel0_yp, bessel0_yq) + two_pi * log(x) * EC_FN(j0_of)(x);
}

/* Near 0: Ai(0) f - Ai'(0) g with the power series f and g, which cancel: in double. */
static EC_C EC_FN(airy_near)(EC_C x) {
  const double z = (double)x * x * x, least = sizeof x == 4 ? 0x1p-30 : 0x1p-52;
  double f = 1, g = x, m = 1, n = x, t = 1;
  for (double k = 1; t > least; k += 3) {
    m = m * z / (k + 1) / (k + 2);
    n = n * z / (k + 2) / (k + 3);
    f += m;
    g += n;
    t = fabs(m / f);
  }
  return (EC_C)(0.355028053887817239260 * f - 0.258819403792806798405 * g);
}

static EC_C EC_FN(airy_of)(EC_C x) {
  const EC_C rsqrt_pi = K(0x1.20dd750429b6dp-1), quarter_pi = K(0x1.921fb54442d18p-1);
  if (isinf(x)) return K(NAN);
  if (x > K(103.892)) return 0;
  const EC_C a = fabs(x), zeta = 2 * a * sqrt(a) / 3, z = 1 / zeta;
  if (x >= K(2.09)) return rsqrt_pi * RATIO(z, airy_an, airy_ad) / (2 * sqrt(sqrt(a)) * exp(zeta));
  if (!(x < K(-2.09))) return EC_FN(airy_near)(x);
  const EC_C t = zeta + quarter_pi, zz = z * z;
  const EC_C even = 1 + zz * RATIO(zz, airy_afn, airy_afd), odd = z * RATIO(zz, airy_agn, airy_agd);
  return rsqrt_pi / sqrt(sqrt(a)) * (sin(t) * even - cos(t) * odd);
}

static EC_C EC_FN(spherical_of)(EC_C x) {
  const EC_C z = x * x;
  if (isinf(x)) return 0;
  if (!(fabs(x) < K(0.5))) return sin(x) / x;
  EC_C y = 1;
  for (int k = 13; k > 1; k -= 2) y = 1 - z * y / K(k * (k - 1));
  return y;
}

#define EC_NAME bessel_i0
#define EC_EXPR(x) EC_FN(bessel_i)(x, false, false)
#include "kernels/pointwise/loop1.h"
#define EC_NAME bessel_i0e
#define EC_EXPR(x) EC_FN(bessel_i)(x, false, true)
#include "kernels/pointwise/loop1.h"
#define EC_NAME bessel_i1
#define EC_EXPR(x) EC_FN(bessel_i)(x, true, false)
#include "kernels/pointwise/loop1.h"
#define EC_NAME bessel_i1e
#define EC_EXPR(x) EC_FN(bessel_i)(x, true, true)
#include "kernels/pointwise/loop1.h"
#define EC_NAME bessel_k0
#define EC_EXPR(x) EC_FN(bessel_k)(x, false, false)
#include "kernels/pointwise/loop1.h"
#define EC_NAME bessel_k0e
#define EC_EXPR(x) EC_FN(bessel_k)(x, false, true)
#include "kernels/pointwise/loop1.h"
#define EC_NAME bessel_k1
#define EC_EXPR(x) EC_FN(bessel_k)(x, true, false)
#include "kernels/pointwise/loop1.h"
#define EC_NAME bessel_k1e
#define EC_EXPR(x) EC_FN(bessel_k)(x, true, true)
#include "kernels/pointwise/loop1.h"
#define EC_NAME bessel_j0
#define EC_EXPR(x) EC_FN(j0_of)(x)
#include "kernels/pointwise/loop1.h"
#define EC_NAME bessel_j1
#define EC_EXPR(x) EC_FN(j1_of)(x)
#include "kernels/pointwise/loop1.h"
#define EC_NAME bessel_y0
#define EC_EXPR(x) EC_FN(bessel_y)(x, false)
#include "kernels/pointwise/loop1.h"
#define EC_NAME bessel_y1
#define EC_EXPR(x) EC_FN(bessel_y)(x, true)
#include "kernels/pointwise/loop1.h"
#define EC_NAME airy_ai
#define EC_EXPR(x) EC_FN(airy_of)(x)
#include "kernels/pointwise/loop1.h"
#define EC_NAME spherical_j0
#define EC_EXPR(x) EC_FN(spherical_of)(x)
#include "kernels/pointwise/loop1.h"
#include "kernels/special/gamma.tmpl.h"
