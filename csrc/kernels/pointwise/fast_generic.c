/* The fast float32 loops for any machine, and the selection of the instruction set. */
#include "kernels/pointwise/fast.h"

#include "kernels/pointwise/template.h"

#ifdef __FP_FAST_FMAF
#define EC_FMA(a, b, c) __builtin_fmaf(a, b, c)
#else
#define EC_FMA(a, b, c) ((a) * (b) + (c))
#endif
#define EC_TEMPLATE "kernels/pointwise/fast.tmpl.h"
#include "core/dtype/float32.h"
#undef EC_TEMPLATE

const ec_elementwise_loop ec_fast_generic[EC_FAST_COUNT] = {
#define EC_FAST(NAME, loop) [EC_FAST_##NAME] = loop##_float32,
#include "kernels/pointwise/fast.def"
#undef EC_FAST
};

ec_elementwise_loop ec_fast_loop(ec_fast which, ec_dtype compute) {
#ifdef __x86_64__
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) {
    if (compute == EC_FLOAT64) return ec_fast64_avx2[which];
    if (compute == EC_FLOAT32 && ec_fast_avx2[which]) return ec_fast_avx2[which];
  }
#endif
  return compute == EC_FLOAT32 ? ec_fast_generic[which] : ec_fast_int(which, compute);
}
