/* zeta and the incomplete gamma functions.
 *
 * zeta: the Euler-Maclaurin formula (Abramowitz and Stegun 23.2). Incomplete gamma functions: power
 * series (DLMF 8.11.4, 8.7.3), the continued fraction (8.9.2) by Lentz's method, and Temme's
 * uniform expansion for large parameters (8.12). */
#include "kernels/special/gamma.h"

#include <float.h>
#include <math.h>

#include "kernels/special/gamma_tables.h"

enum { TERMS = 2000 };

static const double epsilon = 0x1p-53;

static double zeta_tail(double x, double q) {
  double a = q, b = 0, s = pow(q, -x);
  for (int i = 0; i < 9 || a <= 9; i++) {
    a += 1;
    b = pow(a, -x);
    s += b;
    if (fabs(b) < epsilon * fabs(s)) return s;
  }
  const double w = a;
  s += b * w / (x - 1) - b / 2;
  double rising = 1, k = 0; /* x (x + 1) ... (x + k) */
  for (size_t i = 0; i < EC_COUNT(zeta_series); i++, k += 2) {
    rising *= x + k;
    b /= w;
    const double t = rising * b / zeta_series[i];
    s += t;
    if (fabs(t / s) < epsilon) break;
    rising *= x + k + 1;
    b /= w;
  }
  return s;
}

double ec_zeta(double x, double q) {
  if (x == 1) return INFINITY;
  if (x < 1) return NAN;
  if (q <= 0) {
    if (q == floor(q)) return INFINITY;
    if (x != floor(x)) return NAN;
  }
  if (q > -1000) return zeta_tail(x, q);
  const double up = q - floor(q), sum = zeta_tail(x, 1 - up) - zeta_tail(x, 1 - q);
  return zeta_tail(x, up) + (fmod(x, 2) == 0 ? sum : -sum); /* terms below 0 in closed form */
}

static double log_gamma(double a) {
  int sign;
  return lgamma_r(a, &sign);
}

/* x^a exp(-x) / gamma(a), by Stirling's series if the factors are large. */
static double gamma_prefactor(double a, double x) {
  if (a < 10) return exp(a * log(x) - x - log_gamma(a));
  const double u = (x - a) / a, z = 1 / (a * a);
  const double far = u < -0.5 || u > 1 ? u - log(x / a) : u - log1p(u);
  const double rest =
      (1. / 12 - z * (1. / 360 - z * (1. / 1260 - z * (1. / 1680 - z * (1. / 1188))))) / a;
  return exp(-a * far - rest) * sqrt(a / 0x1.921fb54442d18p+2);
}

static double lower_series(double a, double x) {
  double term = 1, sum = 1;
  for (int n = 1; n < TERMS && term > epsilon * sum; n++) {
    term *= x / (a + n);
    sum += term;
  }
  return sum * gamma_prefactor(a, x) / a;
}

/* For small x, without the cancellation of 1 - P. */
static double upper_series(double a, double x) {
  double factor = 1, sum = 0;
  for (int n = 1; n < TERMS; n++) {
    factor *= -x / n;
    const double term = factor / (a + n);
    sum += term;
    if (fabs(term) <= epsilon * fabs(sum)) break;
  }
  const double power = a * log(x);
  return -expm1(power - log_gamma(1 + a)) - exp(power - log_gamma(a)) * sum;
}

static double upper_fraction(double a, double x) {
  double b = x + 1 - a, c = 0x1p1000, d = 1 / b, value = d;
  for (int n = 1; n < TERMS; n++) {
    const double top = n * (a - n);
    b += 2;
    d = top * d + b;
    c = b + top / c;
    if (d == 0) d = 0x1p-1000;
    if (c == 0) c = 0x1p-1000;
    d = 1 / d;
    value *= c * d;
    if (fabs(c * d - 1) <= epsilon) break;
  }
  return value * gamma_prefactor(a, x);
}

static double gamma_uniform(double a, double x, bool upper) {
  const double u = (x - a) / a, sign = upper ? 1 : -1;
  const double eta = copysign(sqrt(-2 * (log1p(u) - u)), u);
  double sum = 0, scale = 1;
  for (size_t k = 0; k < EC_COUNT(temme); k++, scale /= a) {
    double s = 0;
    for (size_t n = EC_COUNT(temme[0]); n--;) s = s * eta + temme[k][n];
    sum += s * scale;
  }
  return 0.5 * erfc(sign * eta * sqrt(a / 2)) +
         sign * exp(-0.5 * a * eta * eta) * sum / sqrt(0x1.921fb54442d18p+2 * a);
}

double ec_gamma_ratio(double a, double x, bool upper) {
  if (x < 0 || a < 0 || (a == 0 && !(x > 0)) || (isinf(a) && isinf(x))) return NAN;
  if (x == 0 || isinf(a)) return upper ? 1 : 0; /* also with NaN, as in eager */
  if (isnan(x)) return NAN;
  if (a < DBL_MIN || isinf(x)) return upper ? 0 : 1; /* 1 / a may overflow */
  if (isnan(a)) return NAN;
  if (a > 200 && fabs(x - a) < 0.31 * a) return gamma_uniform(a, x, upper);
  if (!upper) return x > 1 && x > a ? 1 - ec_gamma_ratio(a, x, true) : lower_series(a, x);
  if (x > 1.1 && x >= a) return upper_fraction(a, x);
  const bool falls = x > 1.1 || (x > 0.5 ? x * 1.1 < a : -0.4 / log(x) < a);
  return falls ? 1 - lower_series(a, x) : upper_series(a, x);
}
