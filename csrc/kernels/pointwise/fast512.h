/* Loops of contiguous float32 in 512-bit vectors, for functions whose compiled loops are at least a
 * tenth slower: exponents by vscalefps, roots and quotients by a constant with corrections that
 * round as the instructions do. Results are bitwise those of fast.tmpl.h (compared over all
 * floats), whose loops compute other calls, and vectors with rare values. */
#define EC_V __m512
#define EC_SET(x) _mm512_set1_ps(x)
#define EC_FMA_V(a, b, c) _mm512_fmadd_ps(a, b, c)
#define EC_BITS_V(x) _mm512_castps_si512(x)
#define EC_FLOATS_V(x) _mm512_castsi512_ps(x)

/* p x + c for a constant c: a step of a polynomial. */
#define EC_STEP(p, x, c) EC_FMA_V(p, x, EC_SET(c))

/* The lanes whose bits are in [from, to). */
EC_INLINE __mmask16 within(__m512i bits, uint32_t from, uint32_t to) {
  const __m512i above = _mm512_sub_epi32(bits, _mm512_set1_epi32((int32_t)from));
  return _mm512_cmplt_epu32_mask(above, _mm512_set1_epi32((int32_t)(to - from)));
}

EC_INLINE EC_V with_sign_v(EC_V magnitude, EC_V x) {
  enum { SELECT = 0xd8 }; /* bits of the sign from x, others from the magnitude */
  return EC_FLOATS_V(_mm512_ternarylogic_epi32(EC_BITS_V(magnitude), EC_BITS_V(x),
                                               _mm512_set1_epi32(INT32_MIN), SELECT));
}

/* ---- quotients and roots ------------------------------------------------------------------- */

/* sqrt(x) for 2^-100 <= x < infinity, and half of its inverse. */
typedef struct root {
  EC_V root, half;
} root;

EC_INLINE root root_of(EC_V x) {
  const EC_V y = _mm512_rsqrt14_ps(x), g = _mm512_mul_ps(x, y), h = _mm512_mul_ps(y, EC_SET(0.5f));
  const EC_V e = _mm512_fnmadd_ps(h, g, EC_SET(0.5f));
  const EC_V near = EC_FMA_V(g, e, g), half = EC_FMA_V(h, e, h);
  return (root){EC_FMA_V(_mm512_fnmadd_ps(near, near, x), half, near), half};
}

EC_INLINE __mmask16 is_usual_root(EC_V x) { return within(EC_BITS_V(x), 0x0d800000u, 0x7f800000u); }

EC_INLINE EC_V sqrt_v(EC_V x, __mmask16 *usual) {
  *usual = is_usual_root(x);
  return root_of(x).root;
}

/* The correction rounds right but for divisors whose significand is all ones. */
EC_INLINE EC_V rsqrt_v(EC_V x, __mmask16 *usual) {
  const __m512i ones = _mm512_set1_epi32(0x7fffff);
  const root r = root_of(x);
  const EC_V y = _mm512_add_ps(r.half, r.half);
  const __m512i zeros = _mm512_andnot_si512(EC_BITS_V(r.root), ones);
  *usual = _mm512_mask_test_epi32_mask(is_usual_root(x), zeros, ones);
  return EC_FMA_V(_mm512_fnmadd_ps(r.root, y, EC_SET(1)), y, y);
}

/* ---- exponentials -------------------------------------------------------------------------- */

typedef struct reduced_v {
  EC_V r, n, shifted;
} reduced_v;

EC_INLINE reduced_v reduce_v(EC_V x) {
  const EC_V shifted = EC_STEP(x, EC_SET(0x1.715476p+0f), EC_ROUNDER);
  const EC_V n = _mm512_sub_ps(shifted, EC_SET(EC_ROUNDER));
  const EC_V high = EC_FMA_V(n, EC_SET(-0x1.62e400p-1f), x);
  return (reduced_v){EC_FMA_V(n, EC_SET(-0x1.7f7d1cp-20f), high), n, shifted};
}

EC_INLINE EC_V exp_series(EC_V r) {
  EC_V q = EC_STEP(r, EC_SET(0x1.6db4e4p-10f), 0x1.123be0p-7f);
  q = EC_STEP(q, r, 0x1.55545ep-5f);
  q = EC_STEP(q, r, 0x1.55548ep-3f);
  q = EC_STEP(q, r, 0x1.000000p-1f);
  return _mm512_add_ps(EC_FMA_V(q, _mm512_mul_ps(r, r), r), EC_SET(1));
}

/* exp_of. The bounds are first operands: minima and maxima with NaN are the second one. */
EC_INLINE EC_V exp_v(EC_V x) {
  const EC_V in = _mm512_min_ps(EC_SET(90), _mm512_max_ps(EC_SET(-104), x));
  const reduced_v s = reduce_v(in);
  return _mm512_scalef_ps(exp_series(s.r), s.n);
}

/* The divider runs beside the other instructions: an approximation would be slower here. */
EC_INLINE EC_V sigmoid_v(EC_V x) {
  const EC_V minus = EC_FLOATS_V(_mm512_xor_si512(EC_BITS_V(x), _mm512_set1_epi32(INT32_MIN)));
  return _mm512_div_ps(EC_SET(1), _mm512_add_ps(EC_SET(1), exp_v(minus)));
}

/* tanh_of, with expm1_of for numbers from 0 to 20. */
EC_INLINE EC_V tanh_v(EC_V x) {
  const EC_V a = _mm512_min_ps(EC_SET(10), _mm512_abs_ps(x));
  const reduced_v s = reduce_v(_mm512_add_ps(a, a));
  EC_V q = EC_STEP(s.r, EC_SET(0x1.a1b5cep-13f), 0x1.6d974cp-10f);
  q = EC_STEP(q, s.r, 0x1.11107ep-7f);
  q = EC_STEP(q, s.r, 0x1.555480p-5f);
  q = EC_STEP(q, s.r, 0x1.555556p-3f);
  q = EC_STEP(q, s.r, 0x1.000000p-1f);
  const EC_V m = EC_FMA_V(q, _mm512_mul_ps(s.r, s.r), s.r);
  const __m512i biased = _mm512_add_epi32(EC_BITS_V(s.shifted), _mm512_set1_epi32(126));
  const EC_V half = EC_FLOATS_V(_mm512_slli_epi32(biased, 23)); /* shifts the rounder out */
  const EC_V below = EC_FMA_V(half, m, _mm512_sub_ps(half, EC_SET(0.5f)));
  const EC_V t = _mm512_add_ps(below, below);
  return with_sign_v(_mm512_div_ps(t, _mm512_add_ps(t, EC_SET(2))), x);
}

/* ---- logarithm ----------------------------------------------------------------------------- */

EC_INLINE EC_V log_v(EC_V x, __mmask16 *usual) {
  const __m512i first = _mm512_set1_epi32(0x3f3504f3), whole = EC_BITS_V(x);
  const __m512i bits = _mm512_sub_epi32(whole, first);
  const EC_V e = _mm512_cvtepi32_ps(_mm512_srai_epi32(bits, 23));
  const __m512i low = _mm512_and_si512(bits, _mm512_set1_epi32(0x7fffff));
  const EC_V f = _mm512_sub_ps(EC_FLOATS_V(_mm512_add_epi32(low, first)), EC_SET(1));
  EC_V p = EC_STEP(f, EC_SET(0x1.1b3e92p-4f), -0x1.e2e7ecp-4f); /* log_tail */
  p = EC_STEP(p, f, 0x1.e6519ap-4f);
  p = EC_STEP(p, f, -0x1.fb4388p-4f);
  p = EC_STEP(p, f, 0x1.2332b4p-3f);
  p = EC_STEP(p, f, -0x1.5562e0p-3f);
  p = EC_STEP(p, f, 0x1.99a546p-3f);
  p = EC_STEP(p, f, -0x1.ffffeep-3f);
  p = EC_STEP(p, f, 0x1.555546p-2f);
  const EC_V square = _mm512_mul_ps(f, f), half = _mm512_mul_ps(EC_SET(-0.5f), square);
  const EC_V tail = EC_FMA_V(_mm512_mul_ps(p, square), f, half);
  const EC_V rest = EC_FMA_V(e, EC_SET(0x1.7f7d1cp-20f), tail);
  *usual = within(whole, 0x00800000u, 0x7f800000u);
  return EC_FMA_V(e, EC_SET(0x1.62e400p-1f), _mm512_add_ps(f, rest));
}

/* ---- sine and error function --------------------------------------------------------------- */

EC_INLINE EC_V sine(EC_V x, int32_t quarter, __mmask16 *usual) {
  const EC_V shifted = EC_STEP(x, EC_SET(0x1.45f306p-1f), EC_ROUNDER);
  const EC_V n = _mm512_sub_ps(shifted, EC_SET(EC_ROUNDER));
  EC_V r = EC_FMA_V(n, EC_SET(-0x1.92p+0f), x);
  r = EC_FMA_V(n, EC_SET(-0x1.fb4p-12f), r);
  r = EC_FMA_V(n, EC_SET(-0x1.4442d2p-24f), r);
  const EC_V s = _mm512_mul_ps(r, r);
  EC_V p = EC_STEP(s, EC_SET(-0x1.994b3ep-13f), 0x1.110756p-7f);
  p = EC_STEP(p, s, -0x1.555546p-3f);
  const EC_V odd = EC_FMA_V(_mm512_mul_ps(p, s), r, r);
  EC_V q = EC_STEP(s, EC_SET(0x1.99ff3ep-16f), -0x1.6c0c82p-10f);
  q = EC_STEP(q, s, 0x1.55554ap-5f);
  const EC_V even = EC_FMA_V(_mm512_mul_ps(q, s), s, EC_STEP(s, EC_SET(-0.5f), 1.0f));
  const __m512i turn = _mm512_add_epi32(EC_BITS_V(shifted), _mm512_set1_epi32(quarter));
  const __mmask16 is_even = _mm512_test_epi32_mask(turn, _mm512_set1_epi32(1));
  const EC_V value = _mm512_mask_mov_ps(odd, is_even, even);
  const __m512i sign = _mm512_slli_epi32(_mm512_srli_epi32(turn, 1), 31);
  const __mmask16 zero = quarter ? 0 : _mm512_cmp_ps_mask(x, EC_SET(0), _CMP_EQ_OQ);
  *usual = _mm512_cmp_ps_mask(_mm512_abs_ps(x), EC_SET(EC_TRIG_LIMIT), _CMP_LE_OQ);
  const EC_V result = EC_FLOATS_V(_mm512_xor_si512(EC_BITS_V(value), sign));
  return quarter ? result : _mm512_mask_mov_ps(result, zero, x);
}

EC_INLINE EC_V sin_v(EC_V x, __mmask16 *usual) { return sine(x, 0, usual); }
EC_INLINE EC_V cos_v(EC_V x, __mmask16 *usual) { return sine(x, 1, usual); }

EC_INLINE EC_V erf_v(EC_V x) {
  const EC_V t = _mm512_min_ps(EC_SET(4), _mm512_abs_ps(x)), s = _mm512_mul_ps(t, t);
  EC_V p = EC_STEP(s, EC_SET(0x1.5cd4aap-14f), -0x1.aa3f2cp-11f);
  p = EC_STEP(p, s, 0x1.54c7f4p-8f);
  p = EC_STEP(p, s, -0x1.b80e90p-6f);
  p = EC_STEP(p, s, 0x1.ce2e0ap-4f);
  p = EC_STEP(p, s, -0x1.812742p-2f);
  p = EC_STEP(p, s, 0x1.06eba8p-3f);
  const EC_V small = EC_FMA_V(t, p, t);
  EC_V q = EC_STEP(t, EC_SET(-0x1.78dd8ep-17f), 0x1.527c6ap-12f);
  q = EC_STEP(q, t, -0x1.dd6cd8p-9f);
  q = EC_STEP(q, t, 0x1.85515ep-6f);
  q = EC_STEP(q, t, -0x1.b32574p-4f);
  q = EC_STEP(q, t, -0x1.45328ep-1f);
  q = EC_STEP(q, t, -0x1.20ef1cp+0f);
  const reduced_v e = reduce_v(_mm512_mul_ps(q, t)); /* from -20 to 0 */
  const EC_V large = _mm512_sub_ps(EC_SET(1), _mm512_scalef_ps(exp_series(e.r), e.n));
  const __mmask16 is_small = _mm512_cmp_ps_mask(t, EC_SET(0.93f), _CMP_LT_OQ);
  return with_sign_v(_mm512_mask_mov_ps(large, is_small, small), x);
}

/* gelu_of, with exp_below for numbers from -20 to 0. */
EC_INLINE EC_V gelu_v(EC_V x) {
  const EC_V z = _mm512_mul_ps(x, EC_SET(0x1.6a09e6p-1f));
  const EC_V t = _mm512_min_ps(EC_SET(4), _mm512_abs_ps(z));
  EC_V p = EC_STEP(t, EC_SET(0x1.0de77ap-17f), -0x1.bcb4c6p-14f);
  p = EC_STEP(p, t, 0x1.344132p-11f);
  p = EC_STEP(p, t, -0x1.9d5664p-10f);
  p = EC_STEP(p, t, 0x1.ed1256p-15f);
  p = EC_STEP(p, t, 0x1.3ada8cp-6f);
  p = EC_STEP(p, t, -0x1.a510cap-4f);
  p = EC_STEP(p, t, -0x1.45f28cp-1f);
  p = EC_STEP(p, t, -0x1.20dd78p+0f);
  const EC_V y = _mm512_mul_ps(p, t), shifted = EC_STEP(y, EC_SET(0x1.715476p+0f), EC_ROUNDER);
  const EC_V n = _mm512_sub_ps(shifted, EC_SET(EC_ROUNDER));
  const EC_V e = _mm512_scalef_ps(exp_series(EC_FMA_V(n, EC_SET(-EC_LN2), y)), n);
  const EC_V erf = with_sign_v(_mm512_sub_ps(EC_SET(1), e), x);
  return _mm512_mul_ps(_mm512_mul_ps(x, EC_SET(0.5f)), _mm512_add_ps(EC_SET(1), erf));
}

/* ---- loops --------------------------------------------------------------------------------- */

EC_INLINE bool is_contiguous_pair(const int64_t *step) {
  return step[0] == (int64_t)sizeof(float) && step[1] == (int64_t)sizeof(float);
}

/* A statement for each case: gcc warns of the conversion in a conditional without optimisation. */
EC_INLINE __mmask16 first_lanes(int64_t count) {
  if (count >= 16) return 0xffff;
  return (__mmask16)((1u << count) - 1u);
}

/* The first `n` elements, at most 16; `lanes` are their lanes. */
EC_INLINE void run_vector(int64_t n, float *out, const float *in, __mmask16 lanes,
                          const int64_t *step, ec_params *params,
                          EC_V (*form)(EC_V x, __mmask16 *usual), ec_elementwise_loop fallback) {
  __mmask16 usual = 0xffff;
  const bool whole = lanes == 0xffff;
  const EC_V y = form(whole ? _mm512_loadu_ps(in) : _mm512_maskz_loadu_ps(lanes, in), &usual);
  if ((usual & lanes) != lanes) {
    char *const part[2] = {(char *)out, (char *)(uintptr_t)in};
    fallback(n, part, step, params);
  } else if (whole) {
    _mm512_storeu_ps(out, y);
  } else {
    _mm512_mask_storeu_ps(out, lanes, y);
  }
}

/* `fallback` computes calls with other steps, and vectors in which `usual` misses a lane. */
EC_INLINE void run_512(int64_t n, char *const *at, const int64_t *step, ec_params *params,
                       EC_V (*form)(EC_V x, __mmask16 *usual), ec_elementwise_loop fallback) {
  float *out = (float *)(void *)at[0];
  const float *in = (const float *)(const void *)at[1];
  if (!is_contiguous_pair(step)) {
    fallback(n, at, step, params);
    return;
  }
  int64_t i = 0;
  for (; i + 16 <= n; i += 16)
    run_vector(16, out + i, in + i, 0xffff, step, params, form, fallback);
  if (i < n)
    run_vector(n - i, out + i, in + i, first_lanes(n - i), step, params, form, fallback);
}

/* x / y with y constant, by its inverse (has_inverse). The remainder is exact and the correction
 * rounds right, as numbers are far from the ends of the exponents; zeros are products. */
EC_INLINE void divide_512(int64_t n, char *const *at, const int64_t *step, ec_params *params) {
  float *out = (float *)(void *)at[0];
  const float *in = (const float *)(const void *)at[1], y = *(const float *)(const void *)at[2];
  const uint32_t low = 0x21800000u, high = 0x67800000u; /* 2^-60, 2^80 */
  const EC_V b = EC_SET(y), inverse = _mm512_div_ps(EC_SET(1), b);
  for (int64_t i = 0; i < n; i += 16) {
    const __mmask16 lanes = first_lanes(n - i);
    const EC_V x = _mm512_maskz_loadu_ps(lanes, in + i), near = _mm512_mul_ps(x, inverse);
    const __mmask16 usual = within(EC_BITS_V(_mm512_abs_ps(x)), low, high);
    const EC_V rest = _mm512_fnmadd_ps(b, near, x);
    const __mmask16 zero = _mm512_cmp_ps_mask(x, EC_SET(0), _CMP_EQ_OQ);
    EC_V q = _mm512_mask3_fmadd_ps(rest, inverse, near, usual);
    if ((usual | zero) != 0xffff) q = _mm512_div_ps(x, b);
    _mm512_mask_storeu_ps(out + i, lanes, q);
  }
  (void)step, (void)params;
}

/* True from 2^-40 to 2^40, but for divisors whose significand is all ones. */
EC_INLINE bool has_inverse(float y) {
  const uint32_t bits = ec_float_bits(y) & 0x7fffffffu;
  return bits >= 0x2b800000u && bits < 0x53800000u && (bits & 0x7fffffu) != 0x7fffffu;
}

static void wide_div(int64_t n, char *const *at, const int64_t *step, ec_params *params) {
  const bool rows = is_contiguous_pair(step) && step[2] == 0;
  if (rows && has_inverse(*(const float *)(const void *)at[2])) divide_512(n, at, step, params);
  else fast_div_float32(n, at, step, params);
}

/* gelu_tanh_of: its products are rounded before they are added. */
EC_INLINE EC_V gelu_tanh_v(EC_V x) {
  const EC_V cube = _mm512_mul_ps(_mm512_mul_ps(x, x), x);
  const EC_V sum = _mm512_add_ps(x, _mm512_mul_ps(EC_SET(0.044715f), cube));
  const EC_V e = exp_v(_mm512_mul_ps(EC_SET(-0x1.988454p+0f), sum));
  return _mm512_div_ps(x, _mm512_add_ps(EC_SET(1), e));
}

/* ---- powers --------------------------------------------------------------------------------- */

/* pow_of of eight elements whose base is (1 + f) 2^e. Sets the bits of powers that are usual. */
EC_INLINE __m256 pow_half(__m256 f32, __m256i e32, __m256 y, __mmask8 *usual) {
  const __m512d f = _mm512_cvtps_pd(f32), two = _mm512_set1_pd(2.0);
  const __m512d s = _mm512_div_pd(f, _mm512_add_pd(f, two)), u = _mm512_mul_pd(s, s);
#define EC_FIRST(c, next) _mm512_fmadd_pd(u, _mm512_set1_pd(c), _mm512_set1_pd(next));
#define EC_NEXT(c) a = _mm512_fmadd_pd(a, u, _mm512_set1_pd(c));
  __m512d a = EC_POW_LOG(EC_FIRST, EC_NEXT)
#undef EC_FIRST
#undef EC_NEXT
  const __m512d log2 = _mm512_fmadd_pd(a, s, _mm512_cvtepi32_pd(e32));
  const __m512d power = _mm512_mul_pd(_mm512_cvtps_pd(y), log2);
  const __m512d n = _mm512_roundscale_pd(power, 0), r = _mm512_sub_pd(power, n);
#define EC_FIRST(c, next) _mm512_fmadd_pd(r, _mm512_set1_pd(c), _mm512_set1_pd(next));
#define EC_NEXT(c) q = _mm512_fmadd_pd(q, r, _mm512_set1_pd(c));
  __m512d q = EC_POW_EXP(EC_FIRST, EC_NEXT)
#undef EC_FIRST
#undef EC_NEXT
  *usual = _mm512_cmp_pd_mask(_mm512_abs_pd(power), _mm512_set1_pd(125.0), _CMP_LT_OQ);
  return _mm512_cvtpd_ps(_mm512_scalef_pd(q, n));
}

EC_INLINE __m256 low_half(EC_V x) { return _mm512_castps512_ps256(x); }
EC_INLINE __m256 high_half(EC_V x) { return _mm512_extractf32x8_ps(x, 1); }

/* pow_of, with the lanes that are usual. */
EC_INLINE EC_V pow_v(EC_V x, EC_V y, __mmask16 *usual) {
  const __m512i first = _mm512_set1_epi32(0x3f3504f3), whole = EC_BITS_V(x);
  const __m512i bits = _mm512_sub_epi32(whole, first), e = _mm512_srai_epi32(bits, 23);
  const __m512i low = _mm512_and_si512(bits, _mm512_set1_epi32(0x7fffff));
  const EC_V f = _mm512_sub_ps(EC_FLOATS_V(_mm512_add_epi32(low, first)), EC_SET(1));
  __mmask8 near[2];
  const __m256 z0 = pow_half(low_half(f), _mm512_castsi512_si256(e), low_half(y), &near[0]);
  const __m256 z1 = pow_half(high_half(f), _mm512_extracti64x4_epi64(e, 1), high_half(y), &near[1]);
  const __mmask16 normal = within(whole, 0x00800000u, 0x7f800000u);
  *usual = normal & (__mmask16)(near[0] | near[1] << 8);
  return _mm512_insertf32x8(_mm512_castps256_ps512(z0), z1, 1);
}

/* Both operands are contiguous or one number. libm computes the rare powers, as in the template. */
EC_INLINE void pow_rows(int64_t n, char *const *at, bool is_number[2]) {
  float *out = (float *)(void *)at[0], base[16], exponent[16];
  const float *a = (const float *)(const void *)at[1], *b = (const float *)(const void *)at[2];
  const EC_V x0 = EC_SET(*a), y0 = EC_SET(*b);
  for (int64_t i = 0; i < n; i += 16) {
    const __mmask16 lanes = first_lanes(n - i);
    __mmask16 usual;
    const EC_V x = is_number[0] ? x0 : _mm512_maskz_loadu_ps(lanes, a + i);
    const EC_V y = is_number[1] ? y0 : _mm512_maskz_loadu_ps(lanes, b + i);
    _mm512_mask_storeu_ps(out + i, lanes, pow_v(x, y, &usual));
    if ((usual & lanes) == lanes) continue;
    _mm512_storeu_ps(base, x);
    _mm512_storeu_ps(exponent, y);
    for (int k = 0; k < 16 && i + k < n; k++)
      if (!(usual >> k & 1)) out[i + k] = powf(base[k], exponent[k]);
  }
}

static void wide_pow(int64_t n, char *const *at, const int64_t *step, ec_params *params) {
  const int64_t item = (int64_t)sizeof(float);
  bool is_number[2] = {step[1] == 0, step[2] == 0}, rows = step[0] == item && n > 0;
  for (int k = 0; k < 2; k++) rows &= is_number[k] || step[k + 1] == item;
  if (rows) pow_rows(n, at, is_number);
  else fast_pow_float32(n, at, step, params);
}

/* EC_512(name, form): a loop whose vectors are all usual; EC_512_RARE: its form says which are. */
#define EC_512_RARE(name, form)                                                                    \
  static void wide_##name(int64_t n, char *const *at, const int64_t *step, ec_params *params) {    \
    run_512(n, at, step, params, form, fast_##name##_float32);                                     \
  }
#define EC_512(name)                                                                               \
  EC_INLINE EC_V usual_##name(EC_V x, __mmask16 *usual) {                                          \
    (void)usual;                                                                                   \
    return name##_v(x);                                                                            \
  }                                                                                                \
  EC_512_RARE(name, usual_##name)
EC_512(exp)
EC_512(erf)
EC_512(gelu)
EC_512(gelu_tanh)
EC_512(sigmoid)
EC_512(tanh)
EC_512_RARE(sqrt, sqrt_v)
EC_512_RARE(rsqrt, rsqrt_v)
EC_512_RARE(log, log_v)
EC_512_RARE(sin, sin_v)
EC_512_RARE(cos, cos_v)

/* The rows of the table. */
#define fast_exp_float32 wide_exp
#define fast_erf_float32 wide_erf
#define fast_gelu_float32 wide_gelu
#define fast_gelu_tanh_float32 wide_gelu_tanh
#define fast_sigmoid_float32 wide_sigmoid
#define fast_tanh_float32 wide_tanh
#define fast_sqrt_float32 wide_sqrt
#define fast_rsqrt_float32 wide_rsqrt
#define fast_log_float32 wide_log
#define fast_sin_float32 wide_sin
#define fast_cos_float32 wide_cos
#define fast_div_float32 wide_div
#define fast_pow_float32 wide_pow
