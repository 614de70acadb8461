/* Products of int8 element by element with AVX-512; XNNPACK's have vectors of 16
 * bytes. */
#include "executorch_c/corrections/hook.h"
#include "xnnpack/hardware-config.h"
#include "xnnpack/microparams.h"

#if XNN_ARCH_X86_64
#include <immintrin.h>

#define ECX_AVX512 __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl")))

static inline ECX_AVX512 __attribute__((always_inline)) __m512i ecx_scaled(__m512i product,
                                                                           __m512 scale) {
  return _mm512_cvtps_epi32(_mm512_mul_ps(_mm512_cvtepi32_ps(product), scale));
}

/* Multiplies by the numbers from `b` on, or by its first one if `is_one`. */
static inline ECX_AVX512 __attribute__((always_inline)) void ecx_multiply(
    bool is_one, size_t batch, const int8_t* a, const int8_t* b, int8_t* output,
    const union xnn_qs8_mul_minmax_params* params) {
  const __m512i a_zero = _mm512_set1_epi16(params->scalar.a_zero_point);
  const __m512i b_zero = _mm512_set1_epi16(params->scalar.b_zero_point);
  const __m512 scale = _mm512_set1_ps(params->scalar.scale);
  const __m512i zero_point = _mm512_set1_epi16(params->scalar.output_zero_point);
  const __m256i least = _mm256_set1_epi8(params->scalar.output_min);
  const __m256i most = _mm256_set1_epi8(params->scalar.output_max);
  for (size_t i = 0; i < batch; i += 32) {
    const __mmask32 mask = batch - i < 32 ? ((__mmask32) 1 << (batch - i)) - 1 : ~(__mmask32) 0;
    const __m256i right =
        is_one ? _mm256_set1_epi8(*b) : _mm256_maskz_loadu_epi8(mask, b + i);
    const __m256i left = _mm256_maskz_loadu_epi8(mask, a + i);
    const __m512i x = _mm512_sub_epi16(_mm512_cvtepi8_epi16(left), a_zero);
    const __m512i y = _mm512_sub_epi16(_mm512_cvtepi8_epi16(right), b_zero);
    const __m512i low = _mm512_mullo_epi16(x, y), high = _mm512_mulhi_epi16(x, y);
    const __m512i words =
        _mm512_packs_epi32(ecx_scaled(_mm512_unpacklo_epi16(low, high), scale),
                           ecx_scaled(_mm512_unpackhi_epi16(low, high), scale));
    const __m256i bytes = _mm512_cvtsepi16_epi8(_mm512_adds_epi16(words, zero_point));
    const __m256i z = _mm256_min_epi8(_mm256_max_epi8(bytes, least), most);
    if (batch - i < 32) _mm256_mask_storeu_epi8(output + i, mask, z);
    else _mm256_storeu_si256((__m256i*) (output + i), z);
  }
}

static ECX_AVX512 void ecx_multiply_all(size_t batch, const void* a, const void* b, void* output,
                                        const void* params) {
  ecx_multiply(false, batch, a, b, output, params);
}

static ECX_AVX512 void ecx_multiply_by_one(size_t batch, const void* a, const void* b,
                                           void* output, const void* params) {
  ecx_multiply(true, batch, a, b, output, params);
}

void ecx_set_qs8_vmul(struct xnn_binary_elementwise_config* config) {
  if (!xnn_init_hardware_config()->use_x86_avx512skx) return;
  config->op_ukernel = ecx_multiply_all;
  config->opc_ukernel = config->ropc_ukernel = ecx_multiply_by_one;
  config->element_tile = 32;
}
#endif
