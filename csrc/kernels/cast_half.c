/* float16 <-> float32 with x86's conversion instructions, in rows. They round like core/half.h.
 * ec_cast checks for the instructions first. */
#include "kernels/cast_half.h"

#include "core/simd.h"

#if EC_SIMD_X86
#include <immintrin.h>

#include "core/half.h"

#define EC_F16C __attribute__((target("f16c,avx")))

/* clang up to 18 does not know the feature name f16c; every processor with AVX2 has it. */
#ifdef __clang__
#define EC_HAS_F16C __builtin_cpu_supports("avx2")
#else
#define EC_HAS_F16C (__builtin_cpu_supports("f16c") && __builtin_cpu_supports("avx"))
#endif

EC_F16C static void rows_to_f32(int64_t n, float *dst, const uint16_t *src) {
  int64_t i = 0;
  for (; i + 8 <= n; i += 8) {
    const __m128i half = _mm_loadu_si128((const __m128i *)(const void *)(src + i));
    _mm256_storeu_ps(dst + i, _mm256_cvtph_ps(half));
  }
  for (; i < n; i++) dst[i] = ec_f16_to_f32(src[i]);
}

EC_F16C static void rows_to_f16(int64_t n, uint16_t *dst, const float *src) {
  int64_t i = 0;
  for (; i + 8 <= n; i += 8) {
    const __m256 wide = _mm256_loadu_ps(src + i);
    const __m128i half = _mm256_cvtps_ph(wide, _MM_FROUND_TO_NEAREST_INT);
    _mm_storeu_si128((__m128i *)(void *)(dst + i), half);
  }
  for (; i < n; i++) dst[i] = ec_f32_to_f16(src[i]);
}

static void to_f32(int64_t n, char *dst, int64_t dst_step, const char *src, int64_t src_step) {
  if (dst_step == (int64_t)sizeof(float) && src_step == (int64_t)sizeof(uint16_t))
    rows_to_f32(n, (float *)(void *)dst, (const uint16_t *)(const void *)src);
  else
    for (int64_t i = 0; i < n; i++)
      *(float *)(void *)(dst + i * dst_step) =
          ec_f16_to_f32(*(const uint16_t *)(const void *)(src + i * src_step));
}

static void to_f16(int64_t n, char *dst, int64_t dst_step, const char *src, int64_t src_step) {
  if (dst_step == (int64_t)sizeof(uint16_t) && src_step == (int64_t)sizeof(float))
    rows_to_f16(n, (uint16_t *)(void *)dst, (const float *)(const void *)src);
  else
    for (int64_t i = 0; i < n; i++)
      *(uint16_t *)(void *)(dst + i * dst_step) =
          ec_f32_to_f16(*(const float *)(const void *)(src + i * src_step));
}

ec_cast_fn ec_cast_half(ec_dtype dst, ec_dtype src) {
  if (!EC_HAS_F16C) return NULL;
  if (dst == EC_FLOAT32 && src == EC_FLOAT16) return to_f32;
  return dst == EC_FLOAT16 && src == EC_FLOAT32 ? to_f16 : NULL;
}
#else
ec_cast_fn ec_cast_half(ec_dtype dst, ec_dtype src) {
  (void)dst, (void)src;
  return NULL;
}
#endif
