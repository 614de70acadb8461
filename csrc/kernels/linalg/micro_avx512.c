/* Micro-kernels for AVX-512: 12 rows of two vectors use 24 of the 32 registers for sums. */
#include "kernels/linalg/micro.h"

#include <stdint.h>
#include <string.h>

#include "core/simd.h"

#if EC_SIMD_X86
#include <immintrin.h>

#define EC_M_TARGET __attribute__((target("avx512f,fma")))
#define EC_M_BYTES 64
#define EC_M_THIRD 4
#define EC_M_COLS 2
#define EC_M_SET_FLOAT(x) ((vector_f)_mm512_set1_ps(x))
#define EC_M_SET_DOUBLE(x) ((vector_d)_mm512_set1_pd(x))
#define EC_M_FMA_FLOAT(a, b, c) ((vector_f)_mm512_fmadd_ps(a, b, c))
#define EC_M_FMA_DOUBLE(a, b, c) ((vector_d)_mm512_fmadd_pd(a, b, c))
#include "kernels/linalg/micro_isa.tmpl.h"

const ec_micro ec_micro_avx512[EC_MICRO_TYPES] = {EC_M_TABLE};
#endif
