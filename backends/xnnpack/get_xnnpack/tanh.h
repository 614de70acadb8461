/* tanh of floats, inserted into XNNPACK's unary-elementwise-config.c once for each instruction set:
 * ECX_TARGET is its attribute, ECX_LANES the number of floats in a vector, ECX_SET(name) a name.
 *
 * XNNPACK's kernels differ by up to 2.7 units in the last place from PyTorch's. These are within
 * 1.07 of the exact value, with and without fused multiply-adds, and 1 of PyTorch's (all floats):
 * a polynomial up to 0.7, from there on 1 - 2 / (exp(2 x) + 1). NaN and the sign of zero stay. */
typedef float ECX_SET(floats) __attribute__((vector_size(4 * ECX_LANES), aligned(4), may_alias));
typedef int32_t ECX_SET(ints) __attribute__((vector_size(4 * ECX_LANES), aligned(4), may_alias));
#define ECX_INLINE static inline ECX_TARGET __attribute__((always_inline))

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

ECX_INLINE ECX_SET(floats) ECX_SET(tanh_of)(ECX_SET(floats) x) {
  const ECX_SET(ints) most = (ECX_SET(ints)){0} + 0x41200000; /* 10 */
  const ECX_SET(ints) sign = (ECX_SET(ints)) x & INT32_MIN, size = (ECX_SET(ints)) x & INT32_MAX;
  const ECX_SET(ints) is_above = size > most;
  const ECX_SET(ints) in = (is_above & most) | (~is_above & size);
  const ECX_SET(ints) large = (ECX_SET(ints)) ECX_SET(large_tanh)((ECX_SET(floats)) in);
  const ECX_SET(ints) small = (ECX_SET(ints)) ECX_SET(small_tanh)(x);
  const ECX_SET(ints) is_large = (size > 0x3F333333) & (size <= 0x7F800000); /* 0.7, infinity */
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
