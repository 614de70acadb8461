/* The fast float32 loops for any machine, and the selection of the instruction set. */
#include "kernels/pointwise/fast.h"

#include "kernels/pointwise/template.h"

#ifdef __FP_FAST_FMAF
#define EC_FMA(a, b, c) __builtin_fmaf(a, b, c)
#define EC_FMA_64(a, b, c) __builtin_fma(a, b, c)
#else
#define EC_FMA(a, b, c) ((a) * (b) + (c))
#define EC_FMA_64(a, b, c) ((a) * (b) + (c))
#endif
#define EC_TEMPLATE "kernels/pointwise/fast.tmpl.h"
#include "core/dtype/float32.h"
#undef EC_TEMPLATE

const ec_elementwise_loop ec_fast_generic[EC_FAST_COUNT] = {
#define EC_FAST(NAME, loop) [EC_FAST_##NAME] = loop##_float32,
#include "kernels/pointwise/fast.def"
#undef EC_FAST
};

#if defined(__x86_64__) && !defined(EC_SMALL)
bool ec_fast_has_avx2(void) {
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
}

bool ec_fast_has_avx512(void) {
  return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
}

/* Returns the loop for the instruction sets of this machine; NULL: none. */
static ec_elementwise_loop vector_loop(ec_fast which, ec_dtype compute) {
  const bool is_wide = compute == EC_FLOAT64;
  if (!is_wide && compute != EC_FLOAT32) return NULL;
  if (ec_fast_has_avx512()) return (is_wide ? ec_fast64_avx512 : ec_fast_avx512)[which];
  if (ec_fast_has_avx2()) return (is_wide ? ec_fast64_avx2 : ec_fast_avx2)[which];
  return NULL;
}
#endif

#ifdef EC_SMALL /* plain loops only */
ec_elementwise_loop ec_fast_loop(ec_fast which, ec_dtype compute) {
  (void)which, (void)compute;
  return NULL;
}
#else
ec_elementwise_loop ec_fast_loop(ec_fast which, ec_dtype compute) {
  ec_elementwise_loop loop = NULL;
#ifdef __x86_64__
  loop = vector_loop(which, compute);
#endif
  if (loop) return loop;
  return compute == EC_FLOAT32 ? ec_fast_generic[which] : ec_fast_int(which, compute);
}
#endif
