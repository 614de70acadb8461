/* Orthogonal polynomials of x and a degree, by their recurrences (Abramowitz and Stegun 22.7).
 * Chebyshev polynomials of high degree inside (-1, 1) use their trigonometric forms (22.3.15,
 * 22.3.16).
 * Recurrences use fma, because they cancel and each rounding counts (eager's are compiled to
 * it). */
#define K(x) ((EC_C)(x))

/* Returns an integer degree, or -1. */
static inline int64_t EC_FN(degree)(EC_C n) {
  return n > -K(0x1p63) && n < K(0x1p63) ? (int64_t)n : -1;
}

/* Recurrences with more steps return NaN, to bound the time of a hostile degree. */
#define MAX_STEPS (1 << 16)

/* The value at x = 1 (`above`) or -1. */
static EC_C EC_FN(at_end)(polynomial_kind kind, bool above, int64_t n) {
  const EC_C sign = above || n % 2 == 0 ? 1 : -1;
  if (kind == KIND_T) return sign;
  if (kind == KIND_U) return sign * (K(n) + 1);
  if (kind == KIND_V) return above ? 1 : sign * (2 * K(n) + 1);
  return above ? 2 * K(n) + 1 : sign;
}

/* `direct`: the degree above which the trigonometric forms are used. */
static EC_C EC_FN(chebyshev)(polynomial_kind kind, EC_C x, EC_C degree, int64_t direct) {
  const int64_t n = EC_FN(degree)(degree);
  if (n < 0) return 0;
  if (fabs(x) == 1) return EC_FN(at_end)(kind, x > 0, n);
  if (n > direct && fabs(x) < 1) {
    const EC_C a = acos(x), half = a / 2, m = K(n) + K(0.5), up = K(n) + 1;
    if (kind == KIND_T) return cos(K(n) * a);
    if (kind == KIND_U) return sin(a) != 0 ? sin(up * a) / sin(a) : up * cos(up * a) / x;
    if (kind == KIND_V) return sin(half) != 1 ? cos(m * a) / cos(half) : EC_FN(at_end)(kind, 0, n);
    return cos(half) != 1 ? sin(m * a) / sin(half) : EC_FN(at_end)(kind, x > 0, n);
  }
  if (n == 0) return 1;
  if (n > MAX_STEPS) return K(NAN);
  EC_C p = 1, q = kind == KIND_T ? x : x + x;
  if (kind >= KIND_V) q += kind == KIND_V ? -1 : 1;
  for (int64_t k = 2; k <= n && !isnan(q); k++) {
    const EC_C r = fma(x + x, q, -p);
    p = q;
    q = r;
  }
  return q;
}

/* Hermite polynomials: the physicists' of twice x and twice k, the probabilists' of x. */
static EC_C EC_FN(hermite)(EC_C x, EC_C degree, int64_t scale) {
  const int64_t n = EC_FN(degree)(degree), most = sizeof x == 4 ? 128 : 512; /* as eager */
  if (n <= 0) return n == 0;
  const EC_C t = K(scale) * x;
  EC_C p = 1, q = t;
  if (n > most) return K(NAN);
  for (int64_t k = 1; k < n; k++) {
    const EC_C r = fma(t, q, -(K(scale * k) * p));
    p = q;
    q = r;
  }
  return q;
}

static EC_C EC_FN(laguerre_of)(EC_C x, EC_C degree) {
  const int64_t n = EC_FN(degree)(degree);
  if (n <= 0) return n == 0;
  if (x == 0) return 1;
  if (n > MAX_STEPS) return K(NAN);
  EC_C p = 1, q = 1 - x;
  for (int64_t k = 1; k < n && !isnan(q); k++) {
    const EC_C r = fma(K(k + k) + (1 - x), q, -(K(k) * p)) / K(k + 1);
    p = q;
    q = r;
  }
  return q;
}

static EC_C EC_FN(legendre_of)(EC_C x, EC_C degree) {
  const int64_t n = EC_FN(degree)(degree);
  if (n <= 0) return n == 0;
  if (fabs(x) == 1) return x > 0 || n % 2 == 0 ? 1 : -1;
  if (n > MAX_STEPS) return K(NAN);
  EC_C p = 1, q = x;
  for (int64_t k = 1; k < n && !isnan(q); k++) {
    const EC_C r = fma(K(k + k + 1) * x, q, -(K(k) * p)) / K(k + 1);
    p = q;
    q = r;
  }
  return q;
}

#define EC_NAME chebyshev_t
#define EC_EXPR(x, n) EC_FN(chebyshev)(KIND_T, x, n, 6)
#include "kernels/pointwise/loop2.h"
#define EC_NAME chebyshev_u
#define EC_EXPR(x, n) EC_FN(chebyshev)(KIND_U, x, n, 8)
#include "kernels/pointwise/loop2.h"
#define EC_NAME chebyshev_v
#define EC_EXPR(x, n) EC_FN(chebyshev)(KIND_V, x, n, 8)
#include "kernels/pointwise/loop2.h"
#define EC_NAME chebyshev_w
#define EC_EXPR(x, n) EC_FN(chebyshev)(KIND_W, x, n, 8)
#include "kernels/pointwise/loop2.h"
#define EC_NAME shifted_chebyshev_t
#define EC_EXPR(x, n) EC_FN(chebyshev)(KIND_T, (x) + (x) - 1, n, 6)
#include "kernels/pointwise/loop2.h"
#define EC_NAME shifted_chebyshev_u
#define EC_EXPR(x, n) EC_FN(chebyshev)(KIND_U, (x) + (x) - 1, n, 6)
#include "kernels/pointwise/loop2.h"
#define EC_NAME shifted_chebyshev_v
#define EC_EXPR(x, n) EC_FN(chebyshev)(KIND_V, (x) + (x) - 1, n, 6)
#include "kernels/pointwise/loop2.h"
#define EC_NAME shifted_chebyshev_w
#define EC_EXPR(x, n) EC_FN(chebyshev)(KIND_W, (x) + (x) - 1, n, 4)
#include "kernels/pointwise/loop2.h"
#define EC_NAME hermite_h
#define EC_EXPR(x, n) EC_FN(hermite)(x, n, 2)
#include "kernels/pointwise/loop2.h"
#define EC_NAME hermite_he
#define EC_EXPR(x, n) EC_FN(hermite)(x, n, 1)
#include "kernels/pointwise/loop2.h"
#define EC_NAME laguerre
#define EC_EXPR(x, n) EC_FN(laguerre_of)(x, n)
#include "kernels/pointwise/loop2.h"
#define EC_NAME legendre
#define EC_EXPR(x, n) EC_FN(legendre_of)(x, n)
#include "kernels/pointwise/loop2.h"
#undef K
#undef MAX_STEPS
