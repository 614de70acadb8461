/* Batch norms of floats with AVX-512, a product and a sum for each channel, rounded each,
 * as in XNNPACK's kernel, which has vectors of four. */
#include "executorch_c/corrections/hook.h"
#include "xnnpack/hardware-config.h"
#include "xnnpack/microparams.h"

#if XNN_ARCH_X86_64
#include <immintrin.h>

static __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl"))) void affine(
    size_t rows, size_t channels, const void* input, size_t input_stride, const void* weights,
    void* output, size_t output_stride, const void* params) {
  const union xnn_f32_minmax_params* bounds = params;
  const __m512 least = _mm512_set1_ps(bounds->scalar.min);
  const __m512 most = _mm512_set1_ps(bounds->scalar.max);
  for (; rows; rows--) {
    const float *from = input, *w = weights;
    float* to = output;
    size_t n = channels / sizeof(float), c = 0;
    for (; c < n; c += 16, w += 32) {
      const __mmask16 mask = n - c < 16 ? (__mmask16) ((1u << (n - c)) - 1) : (__mmask16) ~0;
      __m512 x = _mm512_maskz_loadu_ps(mask, from + c);
      x = _mm512_mul_round_ps(x, _mm512_loadu_ps(w), _MM_FROUND_CUR_DIRECTION);
      x = _mm512_add_round_ps(x, _mm512_loadu_ps(w + 16), _MM_FROUND_CUR_DIRECTION);
      x = _mm512_min_ps(_mm512_max_ps(x, least), most);
      if (n - c < 16) _mm512_mask_storeu_ps(to + c, mask, x);
      else _mm512_storeu_ps(to + c, x);
    }
    input = (const void*) ((uintptr_t) input + input_stride);
    output = (void*) ((uintptr_t) output + output_stride);
  }
}

void ecx_set_f32_vmulcaddc(struct xnn_vmulcaddc_config* config) {
  if (!xnn_init_hardware_config()->use_x86_avx512skx) return;
  config->ukernel = affine;
  config->channel_tile = 16;
}
#endif
