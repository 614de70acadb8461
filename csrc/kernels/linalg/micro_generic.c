/* Micro-kernels for every machine, in vectors of 16 bytes; the choice among instruction sets. */
#include "kernels/linalg/micro.h"

#include <stdint.h>

#include "core/simd.h"

#define EC_M_TARGET
#define EC_M_BYTES 16
#define EC_M_THIRD 2
#define EC_M_COLS 2
#define EC_M_SET_FLOAT(x) ((x) - (vector_f){0})
#define EC_M_SET_DOUBLE(x) ((x) - (vector_d){0})
#define EC_M_FMA_FLOAT(a, b, c) ((a) * (b) + (c))
#define EC_M_FMA_DOUBLE(a, b, c) ((a) * (b) + (c))
#include "kernels/linalg/micro_isa.tmpl.h"

enum { COMPLEX_ROWS = 3, COMPLEX_COLS = 4 };

#define EC_M_T float
#define EC_M_FN complex64
#include "kernels/linalg/micro_complex.tmpl.h"
#define EC_M_T double
#define EC_M_FN complex128
#include "kernels/linalg/micro_complex.tmpl.h"

const ec_micro ec_micro_generic[EC_MICRO_TYPES] = {
    EC_M_ROWS_REAL,
    [EC_MICRO_COMPLEX64] = {COMPLEX_ROWS, COMPLEX_COLS, 8, {complex64, complex64, complex64}},
    [EC_MICRO_COMPLEX128] = {COMPLEX_ROWS, COMPLEX_COLS, 16, {complex128, complex128, complex128}},
};

const ec_micro *ec_micro_find(ec_micro_type type) {
#if EC_SIMD_X86
  __builtin_cpu_init();
  if (__builtin_cpu_supports("avx512f") && ec_micro_avx512[type].rows)
    return &ec_micro_avx512[type];
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && ec_micro_avx2[type].rows)
    return &ec_micro_avx2[type];
#endif
  return &ec_micro_generic[type];
}
