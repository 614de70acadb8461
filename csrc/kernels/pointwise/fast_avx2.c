/* The fast loops for AVX2 and FMA; ec_fast_loop checks for both first. */
#include "kernels/pointwise/fast.h"

#include "kernels/pointwise/template.h"

#ifdef __x86_64__
#pragma GCC push_options
#pragma GCC target("avx2,fma")
#define EC_FMA(a, b, c) __builtin_fmaf(a, b, c)
#define EC_TEMPLATE "kernels/pointwise/fast.tmpl.h"
#include "core/dtype/float32.h"
#undef EC_TEMPLATE
#define EC_TEMPLATE "kernels/pointwise/fast64.tmpl.h"
#include "core/dtype/float64.h"
#undef EC_TEMPLATE
#pragma GCC pop_options
#endif

const ec_elementwise_loop ec_fast_avx2[EC_FAST_COUNT] = {
#ifdef __x86_64__
#define EC_FAST(NAME, loop) [EC_FAST_##NAME] = loop##_float32,
#include "kernels/pointwise/fast.def"
#undef EC_FAST
#else
    NULL
#endif
};

const ec_elementwise_loop ec_fast64_avx2[EC_FAST_COUNT] = {
#ifdef __x86_64__
    [EC_FAST_FMOD] = fast_fmod_float64,
    [EC_FAST_REMAINDER] = fast_remainder_float64,
    [EC_FAST_DIV_FLOOR] = fast_div_floor_float64,
#else
    NULL
#endif
};
