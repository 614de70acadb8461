/* float32 to int64 with AVX-512DQ, the first instruction set that converts vectors of them. Numbers
 * outside of int64's range, and NaN, become its minimum, as in ec_f32_to_i64. */
#include "kernels/cast_int64.h"

#include "core/convert.h"
#include "core/simd.h"

#if EC_SIMD_X86
__attribute__((target("avx512f,avx512dq,avx512vl,prefer-vector-width=512"))) static void
cast_rows(int64_t n, int64_t *restrict to, const float *restrict from) {
  for (int64_t i = 0; i < n; i++) to[i] = ec_f32_to_i64(from[i]);
}

static void cast_floats(int64_t n, char *dst, int64_t dst_step, const char *src,
                        int64_t src_step) {
  if (dst_step == (int64_t)sizeof(int64_t) && src_step == (int64_t)sizeof(float)) {
    cast_rows(n, (int64_t *)(void *)dst, (const float *)(const void *)src);
    return;
  }
  for (int64_t i = 0; i < n; i++)
    *(int64_t *)(void *)(dst + i * dst_step) =
        ec_f32_to_i64(*(const float *)(const void *)(src + i * src_step));
}

ec_cast_fn ec_cast_int64(ec_dtype dst, ec_dtype src) {
  if (dst != EC_INT64 || src != EC_FLOAT32) return NULL;
  return __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") ? cast_floats
                                                                                  : NULL;
}
#else
ec_cast_fn ec_cast_int64(ec_dtype dst, ec_dtype src) {
  (void)dst, (void)src;
  return NULL;
}
#endif
