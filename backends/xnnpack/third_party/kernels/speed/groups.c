/* Packing of 4-bit weights with scales of groups, for kernels of 16 channels (AVX-512).
 *
 * XNNPACK packs eight bytes of a channel at a time, and then writes scales and biases in passes of
 * their own: 1.3 GB/s. Here 16 rows become a tile at once: 64 bytes of each are 8 steps of 16
 * weights, whose lower halves go with their upper ones; two squares of 8 x 8 steps are transposed.
 * The sums of weights, by which kernels correct for the inputs' zero points, are added in
 * XNNPACK's order: the same bytes. */
#include "executorch_c/speed/parts.h"
#include "xnnpack/hardware-config.h"
#include "xnnpack/math.h"
#include "xnnpack/pack.h"

#if XNN_ARCH_X86_64
#include <immintrin.h>

enum {
  ECX_CHANNELS = 16,   /* of a tile */
  ECX_STEP = 16,       /* weights of a channel that a kernel reads at once: 8 bytes */
  ECX_STEPS = 8,       /* of 64 bytes of a row */
  ECX_STEP_ZEROS = 128 /* the zero points of a step: 16 times 8 */
};

#define ECX_AVX512 __attribute__((target("avx512f,avx512bw"), always_inline)) static inline

/* Transposes a square of 8 x 8 steps. */
ECX_AVX512 void ecx_transpose(__m512i r[8]) {
  __m512i pairs[8], low[4], high[4];
  for (size_t i = 0; i < 4; i++) {
    pairs[i] = _mm512_unpacklo_epi64(r[2 * i], r[2 * i + 1]);
    pairs[4 + i] = _mm512_unpackhi_epi64(r[2 * i], r[2 * i + 1]);
  }
  for (size_t i = 0; i < 4; i++) {
    low[i] = _mm512_shuffle_i64x2(pairs[2 * i], pairs[2 * i + 1], 0x44);
    high[i] = _mm512_shuffle_i64x2(pairs[2 * i], pairs[2 * i + 1], 0xee);
  }
  for (size_t odd = 0; odd < 2; odd++) {
    r[odd] = _mm512_shuffle_i64x2(low[2 * odd], low[2 * odd + 1], 0x88);
    r[2 + odd] = _mm512_shuffle_i64x2(low[2 * odd], low[2 * odd + 1], 0xdd);
    r[4 + odd] = _mm512_shuffle_i64x2(high[2 * odd], high[2 * odd + 1], 0x88);
    r[6 + odd] = _mm512_shuffle_i64x2(high[2 * odd], high[2 * odd + 1], 0xdd);
  }
}

/* Packs 8 steps of 8 channels: `steps[i]` are those of a step, `sums[i]` the sums of their weights.
 * The steps of `mask` exist. */
ECX_AVX512 void ecx_pack_square(const uint8_t* from, size_t row_bytes, __mmask64 mask,
                                __m512i steps[8], __m256i sums[8]) {
  const __m512i nibble = _mm512_set1_epi8(15), sign = _mm512_set1_epi8(-0x78);
  __m512i totals[8];
  for (size_t row = 0; row < 8; row++) {
    const __m512i x = _mm512_maskz_loadu_epi8(mask, from + row * row_bytes);
    __builtin_prefetch(from + (row + ECX_CHANNELS) * row_bytes, 0, 2); /* of the next tile */
    const __m512i even = _mm512_and_si512(x, nibble);
    const __m512i odd = _mm512_and_si512(_mm512_srli_epi16(x, 4), nibble);
    const __m512i first = _mm512_unpacklo_epi8(even, odd), second = _mm512_unpackhi_epi8(even, odd);
    const __m512i upper = _mm512_slli_epi16(_mm512_unpackhi_epi64(first, second), 4);
    const __m512i lower = _mm512_unpacklo_epi64(first, second);
    steps[row] = _mm512_xor_si512(_mm512_or_si512(lower, upper), sign);
    totals[row] = _mm512_sad_epu8(_mm512_add_epi8(even, odd), _mm512_setzero_si512());
  }
  ecx_transpose(steps);
  ecx_transpose(totals);
  for (size_t i = 0; i < 8; i++) sums[i] = _mm512_cvtepi64_epi32(totals[i]);
}

/* Returns the scales of a group. */
ECX_AVX512 __m512 ecx_group_scales(const uint16_t* from, size_t stride) {
  __m128i halves[2];
  for (size_t i = 0; i < 2; i++, from += 8 * stride) {
    const uint32_t a = from[0] | (uint32_t) from[stride] << 16;
    const uint32_t b = from[2 * stride] | (uint32_t) from[3 * stride] << 16;
    const uint32_t c = from[4 * stride] | (uint32_t) from[5 * stride] << 16;
    const uint32_t d = from[6 * stride] | (uint32_t) from[7 * stride] << 16;
    halves[i] = _mm_setr_epi32((int) a, (int) b, (int) c, (int) d);
  }
  const __m512i wide = _mm512_cvtepu16_epi32(_mm256_set_m128i(halves[1], halves[0]));
  return _mm512_castsi512_ps(_mm512_slli_epi32(wide, 16));
}

/* Kernels multiply weights that are shifted left by 4. */
ECX_AVX512 void ecx_write_group_scales(__m512 scales, char* to) {
  const __m512i bits = _mm512_castps_si512(_mm512_div_ps(scales, _mm512_set1_ps(16)));
  _mm256_storeu_si256((__m256i*) to, _mm512_cvtepi32_epi16(_mm512_srli_epi32(bits, 16)));
}

__attribute__((target("avx512f,avx512bw"))) static void ecx_pack_group_tile(
    const struct ecx_weights* w, size_t first, char* packed) {
  const size_t steps = w->input_channels / ECX_STEP, of_group = w->block_size / ECX_STEP;
  const size_t row_bytes = w->input_channels / 2;
  const uint8_t* from = (const uint8_t*) w->kernel + first * row_bytes;
  const uint16_t* scale_at = w->block_scales + first * w->num_blocks;
  const struct xnn_qs8_qc4w_packing_params* params = w->packing_params;
  const __m512 zero_point = _mm512_set1_ps(params->input_zero_point);
  __m512 sum = _mm512_setzero_ps(), scales = sum;
  char* to = packed + ECX_CHANNELS * sizeof(float);
  for (size_t step = 0, in_group = 0; step < steps;) {
    const size_t count = min(ECX_STEPS, steps - step);
    const __mmask64 mask = UINT64_MAX >> 8 * (ECX_STEPS - count);
    __m512i low[8], high[8];
    __m256i low_sums[8], high_sums[8];
    ecx_pack_square(from, row_bytes, mask, low, low_sums);
    ecx_pack_square(from + 8 * row_bytes, row_bytes, mask, high, high_sums);
    for (size_t i = 0; i < count; i++, to += 128) {
      if (in_group == 0) scales = ecx_group_scales(scale_at++, w->num_blocks);
      const __m512i weights = _mm512_inserti64x4(_mm512_castsi256_si512(low_sums[i]),
                                                 high_sums[i], 1);
      const __m512 total = _mm512_cvtepi32_ps(
          _mm512_sub_epi32(weights, _mm512_set1_epi32(ECX_STEP_ZEROS)));
      sum = _mm512_sub_ps(sum, _mm512_mul_ps(_mm512_mul_ps(total, zero_point), scales));
      _mm512_storeu_si512(to, low[i]);
      _mm512_storeu_si512(to + 64, high[i]);
      if (++in_group < of_group) continue;
      in_group = 0;
      ecx_write_group_scales(scales, to + 128);
      to += ECX_CHANNELS * sizeof(uint16_t);
    }
    step += count;
    from += 64;
  }
  _mm512_storeu_ps(packed, sum);
  const float* bias = w->bias;
  _mm512_storeu_ps(to, bias == NULL ? _mm512_setzero_ps() : _mm512_loadu_ps(bias + first));
}
#endif

bool ecx_packs_groups(const struct ecx_weights* w) {
#if XNN_ARCH_X86_64
  return w->block_size != 0 && w->nr == ECX_CHANNELS && w->kr == 8 && w->sr == 1 &&
         w->pack_bl == (xnn_packw_gemm_goi_bl_ukernel_fn) xnn_pack_qs8_qb4w_gemm_goi_w &&
         w->extra_weights_bytes == sizeof(float) && w->padding_byte == 0 &&
         xnn_init_hardware_config()->use_x86_avx512skx;
#else
  return false;
#endif
}

size_t ecx_pack_groups(const struct ecx_weights* w, size_t first, size_t channels, char* packed) {
  size_t done = 0;
#if XNN_ARCH_X86_64
  if (!ecx_packs_groups(w)) return 0;
  for (; channels - done >= ECX_CHANNELS; done += ECX_CHANNELS)
    ecx_pack_group_tile(w, first + done, packed + done * w->weights_stride);
#endif
  return done;
}
