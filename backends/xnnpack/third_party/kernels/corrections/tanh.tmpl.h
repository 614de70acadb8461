/* tanh of floats, included by tanh.c once for each instruction set:
 * ECX_TARGET is its attribute, ECX_LANES the number of floats in a vector, ECX_SET(name) a name.
 *
 * XNNPACK's kernels differ by up to 2.7 units in the last place from PyTorch's, these by 1 (all
 * floats compared). From the exact value they are at most 1.07 away: a polynomial up to 0.7, from
 * there on 1 - 2 / (exp(2 x) + 1). AVX-512: 1.42, tables, in two thirds of the time. NaN and the
 * sign of zero stay. */
typedef float ECX_SET(floats) __attribute__((vector_size(4 * ECX_LANES), aligned(4), may_alias));
typedef int32_t ECX_SET(ints) __attribute__((vector_size(4 * ECX_LANES), aligned(4), may_alias));
#define ECX_INLINE static inline ECX_TARGET __attribute__((always_inline))

#if ECX_LANES == 16
/* Polynomials in the distance from the middle of an interval: four intervals for each power of two
 * from 1/8 to 10, by the last exponent and first mantissa bits; the constant term first. */
static const float ECX_SET(tanh_table)[6][32] = {
  {0x1.f4bfd6p-1f, 0x1.fbd50ap-1f, 0x1.fe767ap-1f, 0x1.ff6f18p-1f, 0x1.ffdfa8p-1f,
   0x1.fffba0p-1f, 0x1.ffff68p-1f, 0x1.ffffecp-1f, 0x1.000000p+0f, 0, 0, 0, 0, 0, 0, 0,
   0x1.1e1dd0p-3f, 0x1.5c9308p-3f, 0x1.9a5f1cp-3f, 0x1.d7665cp-3f, 0x1.18a39ap-2f,
   0x1.52c2c6p-2f, 0x1.8a87e2p-2f, 0x1.bfae6ap-2f, 0x1.050870p-1f, 0x1.3157e0p-1f,
   0x1.578900p-1f, 0x1.77d838p-1f, 0x1.9e5cb6p-1f, 0x1.c278a6p-1f, 0x1.d9c6fap-1f,
   0x1.e8789ep-1f},
  {0x1.641088p-5f, 0x1.09a7aap-6f, 0x1.88ef70p-8f, 0x1.21a7b6p-9f, 0x1.02c0b2p-11f,
   0x1.1834f8p-14f, 0x1.2f6242p-17f, 0x1.487836p-20f, 0x1.063098p-24f, 0, 0, 0, 0, 0, 0, 0,
   0x1.f601cap-1f, 0x1.f12b00p-1f, 0x1.eb715ap-1f, 0x1.e4dfb2p-1f, 0x1.d98b36p-1f,
   0x1.c7f724p-1f, 0x1.b3ff2ep-1f, 0x1.9e23aep-1f, 0x1.7aeae6p-1f, 0x1.49e6c0p-1f,
   0x1.197fcep-1f, 0x1.d834d2p-2f, 0x1.615002p-2f, 0x1.cea744p-3f, 0x1.265e34p-3f,
   0x1.6fcfa6p-4f},
  {-0x1.5c3b04p-5f, -0x1.077a32p-6f, -0x1.87ba86p-8f, -0x1.215050p-9f, -0x1.025daep-11f,
   -0x1.17d860p-14f, -0x1.2f0028p-17f, -0x1.480e50p-20f, -0x1.001152p-24f, 0, 0, 0, 0, 0, 0, 0,
   -0x1.18883cp-3f, -0x1.5279fep-3f, -0x1.89e50ep-3f, -0x1.be6cb8p-3f, -0x1.038f70p-2f,
   -0x1.2daf98p-2f, -0x1.4ff712p-2f, -0x1.6a1d3ap-2f, -0x1.825de8p-2f, -0x1.897d22p-2f,
   -0x1.79c0e4p-2f, -0x1.5aa222p-2f, -0x1.1df02ep-2f, -0x1.970ea2p-3f, -0x1.1064a8p-3f,
   -0x1.5ee8a4p-4f},
  {0x1.bbceb8p-6f, 0x1.5993c6p-7f, 0x1.039574p-8f, 0x1.80e5ccp-10f, 0x1.584b32p-12f,
   0x1.751282p-15f, 0x1.93f6e4p-18f, 0x1.b55f30p-21f, 0x1.54eff2p-25f, 0, 0, 0, 0, 0, 0, 0,
   -0x1.3b134ep-2f, -0x1.2ea3fcp-2f, -0x1.202a34p-2f, -0x1.0fdf02p-2f, -0x1.e91ee6p-3f,
   -0x1.985880p-3f, -0x1.4271f4p-3f, -0x1.d71f6cp-4f, -0x1.bd0bb4p-5f, 0x1.d769fep-7f,
   0x1.072cbcp-4f, 0x1.843498p-4f, 0x1.c68da6p-4f, 0x1.97d84ap-4f, 0x1.33df46p-4f,
   0x1.a85c3ap-5f},
  {-0x1.95d8bap-7f, -0x1.5157fcp-8f, -0x1.033e0cp-9f, -0x1.8391d8p-11f, -0x1.689a3ep-13f,
   -0x1.872f04p-16f, -0x1.a7a3cep-19f, -0x1.caaf10p-22f, -0x1.a31984p-26f, 0, 0, 0, 0, 0, 0, 0,
   0x1.6b066ep-4f, 0x1.af9d00p-4f, 0x1.ed79b2p-4f, 0x1.11eae0p-3f, 0x1.32e3bap-3f,
   0x1.50036ep-3f, 0x1.5c067ap-3f, 0x1.583cbcp-3f, 0x1.39e30cp-3f, 0x1.e9401cp-4f,
   0x1.474022p-4f, 0x1.632bc0p-5f, 0x1.e0f530p-9f, -0x1.59ecfap-6f, -0x1.9bb31cp-6f,
   -0x1.559b44p-6f},
  {0x1.048bc6p-8f, 0x1.f6439cp-10f, 0x1.9452acp-11f, 0x1.332b62p-12f, 0x1.1faf50p-14f,
   0x1.38b168p-17f, 0x1.52b9f4p-20f, 0x1.6ec262p-23f, 0x1.4e970cp-27f, 0, 0, 0, 0, 0, 0, 0,
   0x1.ca8b52p-4f, 0x1.a25e16p-4f, 0x1.74a384p-4f, 0x1.4289f8p-4f, 0x1.e3c62cp-5f,
   0x1.05c7e0p-5f, 0x1.84b9c8p-8f, -0x1.190df2p-6f, -0x1.63fe32p-5f, -0x1.f837f8p-5f,
   -0x1.00a508p-4f, -0x1.b2a140p-5f, -0x1.068466p-5f, -0x1.382fe2p-7f, 0x1.6b900ep-10f,
   0x1.2d502cp-8f},
};

ECX_INLINE __m512 ECX_SET(tanh_row)(size_t i, __m512i interval) {
  const float* row = ECX_SET(tanh_table)[i];
  return _mm512_permutex2var_ps(_mm512_loadu_ps(row), interval, _mm512_loadu_ps(row + 16));
}

ECX_INLINE ECX_SET(floats) ECX_SET(small_tanh)(ECX_SET(floats) x) {
  const ECX_SET(floats) s = x * x; /* (tanh(x) - x) / x^3 */
  const ECX_SET(floats) p = (s * -0x1.ba1ba2p-5f + 0x1.111112p-3f) * s - 0x1.555556p-2f;
  return x * (s * p) + x;
}

/* For 1/8 <= x < 10. */
ECX_INLINE ECX_SET(floats) ECX_SET(large_tanh)(ECX_SET(floats) x) {
  const ECX_SET(ints) bits = (ECX_SET(ints)) x;
  const __m512i interval = _mm512_srli_epi32((__m512i) bits, 21);
  const ECX_SET(floats) t = x - (ECX_SET(floats)) ((bits & ~0x1FFFFF) | 0x100000);
  ECX_SET(floats) sum = (ECX_SET(floats)) ECX_SET(tanh_row)(5, interval);
#pragma GCC unroll 5
  for (size_t i = 5; i-- > 0;)
    sum = sum * t + (ECX_SET(floats)) ECX_SET(tanh_row)(i, interval);
  return sum;
}

enum { ECX_SET(MIN_LARGE) = 0x3E000000, ECX_SET(MAX_LARGE) = 0x411FFFFF }; /* 1/8, almost 10 */
#else
ECX_INLINE ECX_SET(floats) ECX_SET(small_tanh)(ECX_SET(floats) x) {
  const ECX_SET(floats) s = x * x;
  ECX_SET(floats) p = s * 0x1.f0f004p-10f - 0x1.0251fep-7f; /* (tanh(x) - x) / x^3 */
  p = p * s + 0x1.616b96p-6f;
  p = p * s - 0x1.b9b870p-5f;
  p = p * s + 0x1.110f3cp-3f;
  p = p * s - 0x1.555550p-2f;
  return x * (s * p) + x;
}

/* For 0.7 < x <= 10. Adding `rounder` rounds to an integer in the low bits. */
ECX_INLINE ECX_SET(floats) ECX_SET(large_tanh)(ECX_SET(floats) x) {
  const float rounder = 0x1.8p23f;
  const ECX_SET(floats) twice = x + x, shifted = twice * 0x1.715476p+0f + rounder;
  const ECX_SET(floats) n = shifted - rounder;
  const ECX_SET(floats) r = n * -0x1.7f7d1cp-20f + (n * -0x1.62e400p-1f + twice);
  ECX_SET(floats) q = r * 0x1.6db4e4p-10f + 0x1.123be0p-7f; /* (exp(r) - 1 - r) / r^2 */
  q = q * r + 0x1.55545ep-5f;
  q = q * r + 0x1.55548ep-3f;
  q = q * r + 0.5f;
  const ECX_SET(ints) exponent = (ECX_SET(ints)) shifted - 0x4B400000 + 126;
  const ECX_SET(floats) half = (ECX_SET(floats)) (exponent << 23); /* of 2^n */
  return 1.0f - 1.0f / (half * (q * (r * r) + r) + (half + 0.5f));
}

enum { ECX_SET(MIN_LARGE) = 0x3F333334, ECX_SET(MAX_LARGE) = 0x41200000 }; /* above 0.7; 10 */
#endif

ECX_INLINE ECX_SET(floats) ECX_SET(tanh_of)(ECX_SET(floats) x) {
  const ECX_SET(ints) most = (ECX_SET(ints)){0} + ECX_SET(MAX_LARGE);
  const ECX_SET(ints) sign = (ECX_SET(ints)) x & INT32_MIN, size = (ECX_SET(ints)) x & INT32_MAX;
  const ECX_SET(ints) is_above = size > most;
  const ECX_SET(ints) in = (is_above & most) | (~is_above & size);
  const ECX_SET(ints) large = (ECX_SET(ints)) ECX_SET(large_tanh)((ECX_SET(floats)) in);
  const ECX_SET(ints) small = (ECX_SET(ints)) ECX_SET(small_tanh)(x);
  const ECX_SET(ints) is_large = (size >= ECX_SET(MIN_LARGE)) & (size <= 0x7F800000); /* infinity */
  return (ECX_SET(floats)) ((is_large & large) | (~is_large & small) | sign);
}

static ECX_TARGET void ECX_SET(tanh)(size_t bytes, const void* input, void* output,
                                     const union xnn_unary_uparams* params) {
  const float* x = input;
  float* y = output;
  size_t i = 0, count = bytes / sizeof *x;
  (void) params;
  for (; i + ECX_LANES <= count; i += ECX_LANES)
    *(ECX_SET(floats)*) (y + i) = ECX_SET(tanh_of)(*(const ECX_SET(floats)*) (x + i));
  if (i < count) {
    ECX_SET(floats) rest = {0};
    __builtin_memcpy(&rest, x + i, (count - i) * sizeof *x);
    rest = ECX_SET(tanh_of)(rest);
    __builtin_memcpy(y + i, &rest, (count - i) * sizeof *y);
  }
}
#undef ECX_INLINE
#undef ECX_SET
#undef ECX_TARGET
#undef ECX_LANES
