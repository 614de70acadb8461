/* Elementary functions of double from exact operations and fixed series, with equal results on
 * every machine (libraries differ in last places). Errors are a few units in the last place in the
 * ranges used. */
#ifndef EC_KERNELS_RANDOM_NUMBERS_H
#define EC_KERNELS_RANDOM_NUMBERS_H

#include <math.h>
#include <stdint.h>
#include <string.h>

/* 2 * atanh(s), |s| <= 0.1716: s + s^3 / 3 + ... */
static inline double ec_twice_atanh(double s) {
  const double z = s * s;
  static const double inverse[] = {1. / 23, 1. / 21, 1. / 19, 1. / 17, 1. / 15, 1. / 13,
                                   1. / 11, 1. / 9,  1. / 7,  1. / 5,  1. / 3,  1};
  double sum = 0;
  for (int k = 0; k < 12; k++) sum = sum * z + inverse[k];
  return 2 * s * sum;
}

/* log of a positive normal number. The exponent is chosen so that 1 / sqrt 2 <= m < sqrt 2. */
static inline double ec_log(double x) {
  const uint64_t one = UINT64_C(1023) << 52, low = UINT64_C(0x3FE6A09E667F3BCD);
  uint64_t bits;
  double m;
  memcpy(&bits, &x, sizeof bits);
  const uint64_t biased = (bits - low + one) >> 52;
  bits += one - (biased << 52);
  memcpy(&m, &bits, sizeof m);
  return ec_twice_atanh((m - 1) / (m + 1)) + ((int32_t)biased - 1023) * 0x1.62e42fefa39efp-1;
}

/* log(1 - p), 0 < p < 1, accurate for small p, too. */
static inline double ec_log_complement(double p) {
  return p < 0.25 ? ec_twice_atanh(-p / (2 - p)) : ec_log(1 - p);
}

static inline double ec_exp(double x) {
  if (!(x < 710)) return x > 0 ? (double)INFINITY : x;
  if (x < -746) return 0;
  const double n = nearbyint(x * 0x1.71547652b82fep+0);
  const double r = x - n * 0x1.62e42feep-1 - n * 0x1.a39ef35793c76p-33;
  double sum = 1;
  for (int k = 14; k >= 1; k--) sum = sum * r / k + 1;
  return ldexp(sum, (int)n);
}

/* Cosine and sine of `u` turns, 0 <= u <= 1: of at most an eighth, then moved to the quadrant. */
static inline void ec_turn(double u, double *cosine, double *sine) {
  const int quadrant = (int)(4 * u + 0.5);
  const double x = (u - quadrant * 0.25) * 0x1.921fb54442d18p+2, z = x * x;
  static const double even[] = {1. / 306, 1. / 240, 1. / 182, 1. / 132, 1. / 90,
                                1. / 56,  1. / 30,  1. / 12,  1. / 2}; /* 1 / (k * (k - 1)) */
  static const double odd[] = {1. / 342, 1. / 272, 1. / 210, 1. / 156, 1. / 110,
                               1. / 72,  1. / 42,  1. / 20,  1. / 6};
  double c = 1, s = 1;
  for (int k = 0; k < 9; k++) {
    c = 1 - c * (z * even[k]);
    s = 1 - s * (z * odd[k]);
  }
  s *= x;
  const double first = quadrant & 1 ? s : c, second = quadrant & 1 ? c : s;
  *cosine = (quadrant + 1) & 2 ? -first : first;
  *sine = quadrant & 2 ? -second : second;
}

#endif
