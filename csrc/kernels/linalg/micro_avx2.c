/* Micro-kernels for AVX2 and FMA: 6 rows of two vectors use 12 of the 16 registers for sums. */
#include "kernels/linalg/micro.h"

#include <stdint.h>
#include <string.h>

#include "core/simd.h"

#if EC_SIMD_X86
#include <immintrin.h>

#define EC_M_TARGET __attribute__((target("avx2,fma")))
#define EC_M_BYTES 32
#define EC_M_THIRD 2
#define EC_M_COLS 2
#define EC_M_SET_FLOAT(x) ((vector_f)_mm256_set1_ps(x))
#define EC_M_SET_DOUBLE(x) ((vector_d)_mm256_set1_pd(x))
#define EC_M_FMA_FLOAT(a, b, c) ((vector_f)_mm256_fmadd_ps(a, b, c))
#define EC_M_FMA_DOUBLE(a, b, c) ((vector_d)_mm256_fmadd_pd(a, b, c))
#include "kernels/linalg/micro_isa.tmpl.h"

const ec_micro ec_micro_avx2[EC_MICRO_TYPES] = {EC_M_TABLE};
#endif
