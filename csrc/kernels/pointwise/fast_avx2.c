/* The fast loops for AVX2 and FMA; ec_fast_loop checks for it first. */
#include "kernels/pointwise/fast.h"
#include "kernels/pointwise/template.h"

#ifdef __x86_64__
#pragma GCC push_options
#pragma GCC target("avx2,fma")
#endif
#define EC_FAST_LOOPS ec_fast_avx2
#define EC_FAST_LOOPS_64 ec_fast64_avx2
#include "kernels/pointwise/fast_isa.tmpl.h"
#ifdef __x86_64__
#pragma GCC pop_options
#endif
