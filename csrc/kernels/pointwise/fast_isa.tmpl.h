/* The tables of the fast loops for one instruction set of x86-64 with FMA, whose pragma is in
 * force: EC_FAST_LOOPS of float32, EC_FAST_LOOPS_64 of float64. All of them give equal bits.
 * EC_FAST_WIDE: a header with other loops for some rows, after the template's. */
#ifdef __x86_64__
#define EC_FMA(a, b, c) __builtin_fmaf(a, b, c)
#define EC_FMA_64(a, b, c) __builtin_fma(a, b, c)
#define EC_TEMPLATE "kernels/pointwise/fast.tmpl.h"
#include "core/dtype/float32.h"
#undef EC_TEMPLATE
#define EC_TEMPLATE "kernels/pointwise/fast64.tmpl.h"
#include "core/dtype/float64.h"
#undef EC_TEMPLATE
#ifdef EC_FAST_WIDE
#include EC_FAST_WIDE
#endif
#endif

const ec_elementwise_loop EC_FAST_LOOPS[EC_FAST_COUNT] = {
#ifdef __x86_64__
#define EC_FAST(NAME, loop) [EC_FAST_##NAME] = loop##_float32,
#include "kernels/pointwise/fast.def"
#undef EC_FAST
#else
    NULL
#endif
};

const ec_elementwise_loop EC_FAST_LOOPS_64[EC_FAST_COUNT] = {
#ifdef __x86_64__
    [EC_FAST_FMOD] = fast_fmod_float64,
    [EC_FAST_REMAINDER] = fast_remainder_float64,
    [EC_FAST_DIV_FLOOR] = fast_div_floor_float64,
#else
    NULL
#endif
};
