/* The float32 functions of fast.def in straight-line code: every branch is a selection between
 * values that are computed in any case, so that loops vectorise. EC_FMA(a, b, c) is a * b + c,
 * rounded once if the machine can. Polynomials are minimax fits of the stated functions. */

#define EC_HALF_PI 0x1.921fb6p+0f /* rounded, and its excess */
#define EC_HALF_PI_LOW -0x1.777a5cp-25f
#define EC_LN2 0x1.62e430p-1f

/* Adding this rounds to an integer (ties to even) in the low bits. */
#define EC_ROUNDER 0x1.8p23f

EC_INLINE float power_of_two(int32_t n) { return ec_bits_float((uint32_t)(n + 127) << 23); }

/* x = n * ln 2 + r with |r| <= ln 2 / 2, for |x| < 150. */
typedef struct reduced {
  float r;
  int32_t n;
} reduced;

EC_INLINE reduced reduce(float x) {
  const float shifted = EC_FMA(x, 0x1.715476p+0f, EC_ROUNDER), n = shifted - EC_ROUNDER;
  const float high = EC_FMA(n, -0x1.62e400p-1f, x);
  const uint32_t bits = ec_float_bits(shifted) - ec_float_bits(EC_ROUNDER);
  return (reduced){EC_FMA(n, -0x1.7f7d1cp-20f, high), (int32_t)bits};
}

/* exp(x) / 2^less. The scale is applied in two halves, so that results may be subnormal. */
EC_INLINE float exp_less(float x, int32_t less) {
  const float low = x < -104.0f ? -104.0f : x, in = low > 90.0f ? 90.0f : low;
  const reduced s = reduce(in);
  float q = EC_FMA(s.r, 0x1.6db4e4p-10f, 0x1.123be0p-7f); /* (exp(r) - 1 - r) / r^2 */
  q = EC_FMA(q, s.r, 0x1.55545ep-5f);
  q = EC_FMA(q, s.r, 0x1.55548ep-3f);
  q = EC_FMA(q, s.r, 0x1.000000p-1f);
  const float p = EC_FMA(q, s.r * s.r, s.r) + 1.0f;
  const int32_t half = s.n >> 1;
  return p * power_of_two(half) * power_of_two(s.n - half - less);
}

EC_INLINE float exp_of(float x) { return exp_less(x, 0); }

/* exp(x) - 1, accurate near zero, too. */
EC_INLINE float expm1_of(float x) {
  const float low = x < -30.0f ? -30.0f : x, in = low > 89.0f ? 89.0f : low;
  const reduced s = reduce(in);
  float q = EC_FMA(s.r, 0x1.a1b5cep-13f, 0x1.6d974cp-10f); /* as in exp_of */
  q = EC_FMA(q, s.r, 0x1.11107ep-7f);
  q = EC_FMA(q, s.r, 0x1.555480p-5f);
  q = EC_FMA(q, s.r, 0x1.555556p-3f);
  q = EC_FMA(q, s.r, 0x1.000000p-1f);
  const float m = EC_FMA(q, s.r * s.r, s.r), half = power_of_two(s.n - 1);
  const float result = 2.0f * EC_FMA(half, m, half - 0.5f);
  return x == 0 ? x : result; /* keeps the sign of zero */
}

/* x = m * 2^e with m in [sqrt(1/2), sqrt(2)). log_ends corrects inputs that are not positive and
 * finite. */
typedef struct split {
  float f, e; /* m - 1 */
} split;

EC_INLINE split split_of(float x) {
  const bool tiny = x < 0x1p-126f;
  const float in = tiny ? x * 0x1p24f : x;
  const uint32_t bits = ec_float_bits(in) - 0x3f3504f3u; /* the bits of sqrt(1/2) */
  const int32_t e = (int32_t)bits >> 23;
  const float m = ec_bits_float((bits & 0x7fffffu) + 0x3f3504f3u);
  return (split){m - 1.0f, (float)e - (tiny ? 24.0f : 0.0f)};
}

/* log(1 + f) - f, for f in [sqrt(1/2) - 1, sqrt(2) - 1). */
EC_INLINE float log_tail(float f) {
  float p = EC_FMA(f, 0x1.1b3e92p-4f, -0x1.e2e7ecp-4f); /* (log(1 + f) - f + f^2 / 2) / f^3 */
  p = EC_FMA(p, f, 0x1.e6519ap-4f);
  p = EC_FMA(p, f, -0x1.fb4388p-4f);
  p = EC_FMA(p, f, 0x1.2332b4p-3f);
  p = EC_FMA(p, f, -0x1.5562e0p-3f);
  p = EC_FMA(p, f, 0x1.99a546p-3f);
  p = EC_FMA(p, f, -0x1.ffffeep-3f);
  p = EC_FMA(p, f, 0x1.555546p-2f);
  const float square = f * f;
  return EC_FMA(p * square, f, -0.5f * square);
}

/* log's values at zero, infinity, negative numbers and NaN. */
EC_INLINE float log_ends(float x, float result) {
  const float negative = x == 0 ? -INFINITY : NAN;
  const float above = x < INFINITY ? result : x;
  return x > 0 ? above : x <= 0 ? negative : x;
}

EC_INLINE float log_of(float x) {
  const split s = split_of(x);
  const float tail = EC_FMA(s.e, 0x1.7f7d1cp-20f, log_tail(s.f));
  return log_ends(x, EC_FMA(s.e, 0x1.62e400p-1f, s.f + tail));
}

/* e + (f + tail) * log2(e). The product of f's first 12 bits and log2(e)'s first 11 is exact.
 * Over all f with e in [-3, 3]: within 1.02 units in the last place, 1.13 without EC_FMA. */
EC_INLINE float log2_of(float x) {
  const split s = split_of(x);
  const float coarse = ec_bits_float(ec_float_bits(s.f) & 0xfffff000u);
  const float fine = EC_FMA(s.f - coarse, 0x1.714p+0f, s.f * 0x1.47652cp-12f);
  const float low = EC_FMA(log_tail(s.f), 0x1.715476p+0f, fine);
  return log_ends(x, s.e + EC_FMA(coarse, 0x1.714p+0f, low));
}

EC_INLINE float log10_of(float x) {
  const split s = split_of(x);
  const float tail = EC_FMA(s.e, 0x1.3509f8p-18f, log_tail(s.f) * 0x1.bcb7b2p-2f);
  const float low = EC_FMA(s.f, 0x1.bcb7b2p-2f, tail);
  return log_ends(x, EC_FMA(s.e, 0x1.344000p-2f, low));
}

/* log(u) for u = 1 + x rounded, corrected by the rounding error. */
EC_INLINE float log1p_of(float x) {
  const float u = 1.0f + x, lost = (x - (u - 1.0f)) / u, whole = log_of(u);
  const float tiny = fabsf(x) < 0x1p-24f ? x : whole + lost;
  const float finite = u < INFINITY ? tiny : whole;
  return u > 0 ? finite : whole;
}

EC_INLINE float with_sign(float magnitude, float x) {
  return ec_bits_float(ec_float_bits(magnitude) | (ec_float_bits(x) & 0x80000000u));
}

EC_INLINE float tanh_of(float x) {
  const float a = fabsf(x), in = a > 10.0f ? 10.0f : a;
  const float t = expm1_of(2.0f * in);
  return with_sign(t / (t + 2.0f), x);
}

EC_INLINE float sinh_of(float x) {
  const float a = fabsf(x), m = expm1_of(a > 80.0f ? 80.0f : a);
  const float below = 0.5f * (m + m / (m + 1.0f));
  return with_sign(a > 80.0f ? exp_less(a, 1) : below, x);
}

EC_INLINE float cosh_of(float x) {
  const float half = exp_less(fabsf(x), 1);
  return half + 0.25f / half;
}

EC_INLINE float sigmoid_of(float x) { return 1.0f / (1.0f + exp_of(-x)); }

/* A polynomial in x^2 below 0.93; above it 1 - exp(-t p(t)). */
EC_INLINE float erf_of(float x) {
  const float a = fabsf(x), t = a > 4.0f ? 4.0f : a, s = t * t;
  float p = EC_FMA(s, 0x1.5cd4aap-14f, -0x1.aa3f2cp-11f); /* erf(t) / t */
  p = EC_FMA(p, s, 0x1.54c7f4p-8f);
  p = EC_FMA(p, s, -0x1.b80e90p-6f);
  p = EC_FMA(p, s, 0x1.ce2e0ap-4f);
  p = EC_FMA(p, s, -0x1.812742p-2f);
  p = EC_FMA(p, s, 0x1.06eba8p-3f); /* minus 1 */
  const float small = EC_FMA(t, p, t);
  float q = EC_FMA(t, -0x1.78dd8ep-17f, 0x1.527c6ap-12f); /* log(1 - erf(t)) / t */
  q = EC_FMA(q, t, -0x1.dd6cd8p-9f);
  q = EC_FMA(q, t, 0x1.85515ep-6f);
  q = EC_FMA(q, t, -0x1.b32574p-4f);
  q = EC_FMA(q, t, -0x1.45328ep-1f);
  q = EC_FMA(q, t, -0x1.20ef1cp+0f);
  const float large = 1.0f - exp_of(q * t);
  return with_sign(t < 0.93f ? small : large, x);
}

/* exp(x) for -30 <= x <= 0, with an absolute error of 2^-24. */
EC_INLINE float exp_below(float x) {
  const float shifted = EC_FMA(x, 0x1.715476p+0f, EC_ROUNDER), n = shifted - EC_ROUNDER;
  const float r = EC_FMA(n, -EC_LN2, x);
  float q = EC_FMA(r, 0x1.6db4e4p-10f, 0x1.123be0p-7f); /* as in exp_less */
  q = EC_FMA(q, r, 0x1.55545ep-5f);
  q = EC_FMA(q, r, 0x1.55548ep-3f);
  q = EC_FMA(q, r, 0x1.000000p-1f);
  const float p = EC_FMA(q, r * r, r) + 1.0f;
  return p * ec_bits_float((ec_float_bits(shifted) - ec_float_bits(EC_ROUNDER) + 127) << 23);
}

/* erf within 2^-24 of 1, which is all that 1 + erf needs: 1 - exp(t p(t)). */
EC_INLINE float gelu_of(float x) {
  const float z = x * 0x1.6a09e6p-1f, a = fabsf(z), t = a > 4.0f ? 4.0f : a;
  float p = EC_FMA(t, 0x1.0de77ap-17f, -0x1.bcb4c6p-14f); /* log(1 - erf(t)) / t */
  p = EC_FMA(p, t, 0x1.344132p-11f);
  p = EC_FMA(p, t, -0x1.9d5664p-10f);
  p = EC_FMA(p, t, 0x1.ed1256p-15f);
  p = EC_FMA(p, t, 0x1.3ada8cp-6f);
  p = EC_FMA(p, t, -0x1.a510cap-4f);
  p = EC_FMA(p, t, -0x1.45f28cp-1f);
  p = EC_FMA(p, t, -0x1.20dd78p+0f);
  return x * 0.5f * (1.0f + with_sign(1.0f - exp_below(p * t), x));
}

EC_INLINE float leaky_relu_of(float x, float slope) {
  const float below = x * slope;
  return x > 0 ? x : below;
}

EC_INLINE double double_of_bits(uint64_t bits) {
  double x;
  memcpy(&x, &bits, sizeof x);
  return x;
}

EC_INLINE uint64_t bits_of_double(double x) {
  uint64_t bits;
  memcpy(&bits, &x, sizeof bits);
  return bits;
}

/* Adding these to a double rounds to an integer, which is then in the low bits. */
#define EC_ROUNDER_64 0x1.8p52
#define EC_ONE_64 UINT64_C(0x3ff0000000000000)

/* The coefficients of pow_of, highest first: log2((1 + s) / (1 - s)) / s in s^2 within 2^-45, and
 * (2^r - 1) / r, with which 2^r is within 2^-39. */
#define EC_POW_LOG(first, next)                                                                    \
  first(0x1.21b3d3aeefa94p-2, 0x1.4795206cdb1b4p-2) next(0x1.a61a30256e050p-2)                     \
  next(0x1.2776c291742e2p-1) next(0x1.ec709dc53e0d9p-1) next(0x1.71547652b8250p+1)
#define EC_POW_EXP(first, next)                                                                    \
  first(0x1.63efa53c7d8abp-20, 0x1.00c0fcc6e334cp-16) next(0x1.430891e1ec67cp-13)                  \
  next(0x1.5d87757a0b8f9p-10) next(0x1.3b2ab7256fabcp-7) next(0x1.c6b08da71f2cap-5)                \
  next(0x1.ebfbdff81d239p-3) next(0x1.62e42fef9cc36p-1) next(1.0)

/* x^y in double: 2^(y log2(x)). Sets `rare` if x is not positive and normal, or if the result may
 * not be normal. x is m 2^e with m = (1 + s) / (1 - s) as in split_of. */
EC_INLINE float pow_of(float x, float y, uint32_t *rare) {
  const uint32_t bits = ec_float_bits(x) - 0x3f3504f3u;
  const double e = (double)((int32_t)bits >> 23);
  const double f = (double)(ec_bits_float((bits & 0x7fffffu) + 0x3f3504f3u) - 1.0f);
  const double s = f / (f + 2.0), u = s * s;
#define EC_FIRST(c, next) EC_FMA_64(u, c, next);
#define EC_NEXT(c) a = EC_FMA_64(a, u, c);
  double a = EC_POW_LOG(EC_FIRST, EC_NEXT)
#undef EC_FIRST
#undef EC_NEXT
  const double power = (double)y * EC_FMA_64(a, s, e);
  const double shifted = power + EC_ROUNDER_64, r = power - (shifted - EC_ROUNDER_64);
#define EC_FIRST(c, next) EC_FMA_64(r, c, next);
#define EC_NEXT(c) q = EC_FMA_64(q, r, c);
  double q = EC_POW_EXP(EC_FIRST, EC_NEXT)
#undef EC_FIRST
#undef EC_NEXT
  const uint64_t scale = (bits_of_double(shifted) - bits_of_double(EC_ROUNDER_64)) << 52;
  *rare = (uint32_t) !((x >= 0x1p-126f) & (x < INFINITY) & (fabs(power) < 125.0));
  return (float)(q * double_of_bits(EC_ONE_64 + scale));
}

/* x (1 + tanh u) / 2 is x / (1 + exp(-2 u)). */
EC_INLINE float gelu_tanh_of(float x) {
  const float u = 0x1.988454p+0f * (x + 0.044715f * (x * x * x));
  return x / (1.0f + exp_of(-u));
}

EC_INLINE float elu_of(float x, float negative, float positive, float inside) {
  const float below = expm1_of(x * inside) * negative, above = x * positive;
  return x < 0 ? below : above;
}

/* Beyond this limit the three parts of pi / 2 below no longer reduce exactly. */
#define EC_TRIG_LIMIT 8192.0f

/* sin(x + quarter * pi / 2) for |x| <= EC_TRIG_LIMIT. */
EC_INLINE float sin_of(float x, uint32_t quarter) {
  const float shifted = EC_FMA(x, 0x1.45f306p-1f, EC_ROUNDER), n = shifted - EC_ROUNDER;
  float r = EC_FMA(n, -0x1.92p+0f, x);
  r = EC_FMA(n, -0x1.fb4p-12f, r);
  r = EC_FMA(n, -0x1.4442d2p-24f, r);
  const float s = r * r;
  float p = EC_FMA(s, -0x1.994b3ep-13f, 0x1.110756p-7f);
  p = EC_FMA(p, s, -0x1.555546p-3f);
  const float sine = EC_FMA(p * s, r, r);
  float q = EC_FMA(s, 0x1.99ff3ep-16f, -0x1.6c0c82p-10f);
  q = EC_FMA(q, s, 0x1.55554ap-5f);
  const float cosine = EC_FMA(q * s, s, EC_FMA(s, -0.5f, 1.0f));
  const uint32_t turn = ec_float_bits(shifted) + quarter;
  const float value = turn & 1u ? cosine : x == 0 ? x : sine; /* keeps the sign of zero */
  return ec_bits_float(ec_float_bits(value) ^ (turn & 2u) << 30);
}

enum { SINE, COSINE, TANGENT };

EC_INLINE float angle_of(float x, int form) {
  return form == TANGENT ? sin_of(x, 0) / sin_of(x, 1) : sin_of(x, form == COSINE);
}

/* Processes blocks, so that an output may be its own input. libm recomputes the few large
 * angles. */
EC_INLINE void sin_loop(int64_t n, char *const *at, const int64_t *step, int form) {
  enum { BLOCK = 128 };
  float x[BLOCK], y[BLOCK];
  for (int64_t i = 0; i < n; i += BLOCK) {
    const int64_t m = n - i < BLOCK ? n - i : BLOCK;
    uint32_t large = 0;
    for (int64_t k = 0; k < m; k++)
      x[k] = *(const float *)(const void *)(at[1] + (i + k) * step[1]);
    for (int64_t k = 0; k < m; k++) {
      y[k] = angle_of(x[k], form);
      large |= (uint32_t)!(fabsf(x[k]) <= EC_TRIG_LIMIT);
    }
    for (int64_t k = 0; large && k < m; k++)
      if (!(fabsf(x[k]) <= EC_TRIG_LIMIT))
        y[k] = form == TANGENT ? tanf(x[k]) : form == COSINE ? cosf(x[k]) : sinf(x[k]);
    for (int64_t k = 0; k < m; k++) *(float *)(void *)(at[0] + (i + k) * step[0]) = y[k];
  }
}

static void fast_sin_float32(int64_t n, char *const *at, const int64_t *step, ec_params *params) {
  (void)params;
  sin_loop(n, at, step, SINE);
}

static void fast_cos_float32(int64_t n, char *const *at, const int64_t *step, ec_params *params) {
  (void)params;
  sin_loop(n, at, step, COSINE);
}

static void fast_tan_float32(int64_t n, char *const *at, const int64_t *step, ec_params *params) {
  (void)params;
  sin_loop(n, at, step, TANGENT);
}

/* Blocks, as above; libm computes the rare powers. */
static void fast_pow_float32(int64_t n, char *const *at, const int64_t *step, ec_params *params) {
  enum { BLOCK = 128 };
  float x[BLOCK], y[BLOCK], z[BLOCK];
  (void)params;
  for (int64_t i = 0; i < n; i += BLOCK) {
    const int64_t m = n - i < BLOCK ? n - i : BLOCK;
    uint32_t any = 0, rare[BLOCK];
    for (int64_t k = 0; k < m; k++) {
      x[k] = *(const float *)(const void *)(at[1] + (i + k) * step[1]);
      y[k] = *(const float *)(const void *)(at[2] + (i + k) * step[2]);
    }
    for (int64_t k = 0; k < m; k++) {
      z[k] = pow_of(x[k], y[k], &rare[k]);
      any |= rare[k];
    }
    for (int64_t k = 0; any && k < m; k++)
      if (rare[k]) z[k] = powf(x[k], y[k]);
    for (int64_t k = 0; k < m; k++) *(float *)(void *)(at[0] + (i + k) * step[0]) = z[k];
  }
}

/* asin(t) - t for 0 <= t with t^2 = s <= 1/4. */
EC_INLINE float asin_tail(float t, float s) {
  float p = EC_FMA(s, 0x1.58d4b8p-5f, 0x1.8cee70p-6f); /* (asin(t) - t) / t^3 */
  p = EC_FMA(p, s, 0x1.746796p-5f);
  p = EC_FMA(p, s, 0x1.3302f4p-4f);
  p = EC_FMA(p, s, 0x1.5555c4p-3f);
  return p * s * t;
}

/* The angle with sine sqrt((1 - a) / 2) is half the angle with cosine a. */
typedef struct arc {
  float t, tail; /* the angle in two parts */
  bool half;
} arc;

EC_INLINE arc arc_of(float a) {
  const bool half = a > 0.5f;
  const float s = half ? 0.5f * (1.0f - a) : a * a, t = half ? sqrtf(s) : a;
  return (arc){t, asin_tail(t, s), half};
}

EC_INLINE float asin_of(float x) {
  const arc r = arc_of(fabsf(x));
  const float angle = r.t + r.tail, large = EC_HALF_PI - (2.0f * angle - EC_HALF_PI_LOW);
  return with_sign(r.half ? large : angle, x);
}

EC_INLINE float acos_of(float x) {
  const arc r = arc_of(fabsf(x));
  const float angle = r.t + r.tail, twice = 2.0f * angle, signed_angle = with_sign(angle, x);
  const float small = EC_HALF_PI - (signed_angle - EC_HALF_PI_LOW);
  const float back = 2.0f * EC_HALF_PI - (twice - 2.0f * EC_HALF_PI_LOW);
  return r.half ? x < 0 ? back : twice : small;
}

/* atan(t) for 0 <= t <= 1. */
EC_INLINE float atan_small(float t) {
  const float s = t * t;
  float p = EC_FMA(s, 0x1.7fcaa0p-9f, -0x1.0cacbcp-6f); /* (atan(t) - t) / t^3 */
  p = EC_FMA(p, s, 0x1.626accp-5f);
  p = EC_FMA(p, s, -0x1.358720p-4f);
  p = EC_FMA(p, s, 0x1.b4f93cp-4f);
  p = EC_FMA(p, s, -0x1.230e24p-3f);
  p = EC_FMA(p, s, 0x1.997966p-3f);
  p = EC_FMA(p, s, -0x1.5554dep-2f);
  return EC_FMA(p * s, t, t);
}

EC_INLINE float atan_of(float x) {
  const float a = fabsf(x), t = atan_small(a > 1.0f ? 1.0f / a : a);
  return with_sign(a > 1.0f ? EC_HALF_PI - (t - EC_HALF_PI_LOW) : t, x);
}

/* The angle of (x, y). Two infinities count as 1 and 1; two zeros are on the x axis. */
EC_INLINE float atan2_of(float y, float x) {
  const float a = fabsf(y), b = fabsf(x), low = a > b ? b : a, high = a > b ? a : b;
  const float ratio = low / high, even = low == 0 ? 0.0f : 1.0f;
  const float t = atan_small(low == high ? even : ratio);
  const float steep = a > b ? EC_HALF_PI - (t - EC_HALF_PI_LOW) : t;
  const float back = 2.0f * EC_HALF_PI - (steep - 2.0f * EC_HALF_PI_LOW);
  return with_sign(ec_float_bits(x) >> 31 ? back : steep, y);
}

/* Beyond this limit a square overflows; asinh and acosh are the logarithm of twice their
 * argument. */
#define EC_ARC_LIMIT 0x1p60f

EC_INLINE float asinh_of(float x) {
  const float a = fabsf(x), s = a * a, near = a + s / (1.0f + sqrtf(1.0f + s));
  const float w = log1p_of(a > EC_ARC_LIMIT ? a : near);
  return with_sign(w + (a > EC_ARC_LIMIT ? EC_LN2 : 0.0f), x);
}

EC_INLINE float acosh_of(float x) {
  const float t = x - 1.0f, near = t + sqrtf(EC_FMA(t, t, 2.0f * t));
  const float above = x < 1.0f ? NAN : near;
  return log1p_of(x > EC_ARC_LIMIT ? x : above) + (x > EC_ARC_LIMIT ? EC_LN2 : 0.0f);
}

EC_INLINE float atanh_of(float x) {
  const float a = fabsf(x);
  return with_sign(0.5f * log1p_of(2.0f * a / (1.0f - a)), x);
}

/* fmod(x, y). Below 2^29 the quotient of two floats, rounded to double, never rounds up to an
 * integer, and its integer part times y is exact; `rare` is set for larger quotients. */
EC_INLINE float fmod_of_float32(float x, float y, uint32_t *rare) {
  const double a = fabs((double)x), b = fabs((double)y), q = a / b;
  const double nearest = (q + 0x1p52) - 0x1p52;
  const double whole = nearest - (nearest > q ? 1.0 : 0.0);
  *rare = (uint32_t) !((q < 0x1p29) & (b < (double)INFINITY));
  return with_sign((float)(a - whole * b), x);
}

#define EC_FMOD_FLAG uint32_t
#include "kernels/pointwise/fmod.tmpl.h"
#undef EC_FMOD_FLAG

#define EC_NAME fast_asin
#define EC_EXPR(x) asin_of(x)
#include "kernels/pointwise/loop1.h"
#define EC_NAME fast_acos
#define EC_EXPR(x) acos_of(x)
#include "kernels/pointwise/loop1.h"
#define EC_NAME fast_atan
#define EC_EXPR(x) atan_of(x)
#include "kernels/pointwise/loop1.h"
#define EC_NAME fast_asinh
#define EC_EXPR(x) asinh_of(x)
#include "kernels/pointwise/loop1.h"
#define EC_NAME fast_acosh
#define EC_EXPR(x) acosh_of(x)
#include "kernels/pointwise/loop1.h"
#define EC_NAME fast_atanh
#define EC_EXPR(x) atanh_of(x)
#include "kernels/pointwise/loop1.h"
#define EC_NAME fast_atan2
#define EC_EXPR(x, y) atan2_of(x, y)
#include "kernels/pointwise/loop2.h"
#define EC_NAME fast_exp
#define EC_EXPR(x) exp_of(x)
#include "kernels/pointwise/loop1.h"
#define EC_NAME fast_expm1
#define EC_EXPR(x) expm1_of(x)
#include "kernels/pointwise/loop1.h"
#define EC_NAME fast_log
#define EC_EXPR(x) log_of(x)
#include "kernels/pointwise/loop1.h"
#define EC_NAME fast_log2
#define EC_EXPR(x) log2_of(x)
#include "kernels/pointwise/loop1.h"
#define EC_NAME fast_log10
#define EC_EXPR(x) log10_of(x)
#include "kernels/pointwise/loop1.h"
#define EC_NAME fast_log1p
#define EC_EXPR(x) log1p_of(x)
#include "kernels/pointwise/loop1.h"
#define EC_NAME fast_tanh
#define EC_EXPR(x) tanh_of(x)
#include "kernels/pointwise/loop1.h"
#define EC_NAME fast_sinh
#define EC_EXPR(x) sinh_of(x)
#include "kernels/pointwise/loop1.h"
#define EC_NAME fast_cosh
#define EC_EXPR(x) cosh_of(x)
#include "kernels/pointwise/loop1.h"
#define EC_NAME fast_sigmoid
#define EC_EXPR(x) sigmoid_of(x)
#include "kernels/pointwise/loop1.h"
#define EC_NAME fast_erf
#define EC_EXPR(x) erf_of(x)
#include "kernels/pointwise/loop1.h"
#define EC_NAME fast_gelu
#define EC_EXPR(x) gelu_of(x)
#include "kernels/pointwise/loop1.h"
#define EC_NAME fast_gelu_tanh
#define EC_EXPR(x) gelu_tanh_of(x)
#include "kernels/pointwise/loop1.h"
#define EC_NAME fast_elu
#define EC_EXPR(x) elu_of(x, EC_P(0), EC_P(1), EC_P(2))
#include "kernels/pointwise/loop1.h"
#define EC_NAME fast_sqrt
#define EC_EXPR(x) sqrtf(x)
#include "kernels/pointwise/loop1.h"
#define EC_NAME fast_rsqrt
#define EC_EXPR(x) (1.0f / sqrtf(x))
#include "kernels/pointwise/loop1.h"
#define EC_NAME fast_reciprocal
#define EC_EXPR(x) (1.0f / (x))
#include "kernels/pointwise/loop1.h"
#define EC_NAME fast_div
#define EC_EXPR(x, y) ((x) / (y))
#include "kernels/pointwise/loop2.h"
#define EC_NAME fast_leaky_relu
#define EC_EXPR(x) leaky_relu_of(x, EC_P(0))
#include "kernels/pointwise/loop1.h"
#define EC_NAME fast_floor
#define EC_EXPR(x) floorf(x)
#include "kernels/pointwise/loop1.h"
#define EC_NAME fast_ceil
#define EC_EXPR(x) ceilf(x)
#include "kernels/pointwise/loop1.h"
#define EC_NAME fast_trunc
#define EC_EXPR(x) truncf(x)
#include "kernels/pointwise/loop1.h"
#define EC_NAME fast_round
#define EC_EXPR(x) nearbyintf(x)
#include "kernels/pointwise/loop1.h"
