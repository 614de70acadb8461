/* The fast loops for AVX-512; ec_fast_loop checks for it first. */
#include "kernels/pointwise/fast.h"
#include "kernels/pointwise/template.h"

#ifdef __x86_64__
#include <immintrin.h>
#endif

#ifdef __x86_64__
#pragma GCC push_options
#pragma GCC target("avx512f,avx512bw,avx512dq,avx512vl,fma,prefer-vector-width=512")
#endif
#define EC_FAST_LOOPS ec_fast_avx512
#ifndef __clang__ /* it ignores the pragma, without which there are no vectors of 512 bits */
#define EC_FAST_WIDE "kernels/pointwise/fast512.h"
#endif
#define EC_FAST_LOOPS_64 ec_fast64_avx512
#include "kernels/pointwise/fast_isa.tmpl.h"
#ifdef __x86_64__
#pragma GCC pop_options
#endif
