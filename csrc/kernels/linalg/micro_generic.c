/* Micro-kernels for every machine, with vectors of 16 bytes; the selection of the instruction
 * set. */
#include "kernels/linalg/micro.h"

#include <stdint.h>
#include <string.h>

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

const ec_micro ec_micro_generic[EC_MICRO_TYPES] = {EC_M_TABLE};

const ec_micro *ec_micro_find(ec_micro_type type) {
#if EC_SIMD_X86
  __builtin_cpu_init();
  if (__builtin_cpu_supports("avx512f")) return &ec_micro_avx512[type];
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
    return &ec_micro_avx2[type];
#endif
  return &ec_micro_generic[type];
}

const ec_micro_taps_fn *ec_micro_find_taps(const ec_micro *micro) {
#if EC_SIMD_X86
  if (micro == &ec_micro_avx512[EC_MICRO_FLOAT]) return ec_micro_taps_avx512;
#endif
  (void)micro;
  return NULL;
}
