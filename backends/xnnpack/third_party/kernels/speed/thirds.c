/* Transpositions of bytes.
 *
 * XNNPACK transposes squares of 32 x 32, also of the three rows that an image's colours are before
 * its first layer. Here 16 columns of three rows become 48 bytes.
 */
#include "executorch_c/corrections/hook.h"
#include "xnnpack/hardware-config.h"
#include "xnnpack/transpose.h"

#if XNN_ARCH_X86_64
#include <immintrin.h>

static const int8_t ecx_third[3][3][16] = {
    {{0, -1, -1, 1, -1, -1, 2, -1, -1, 3, -1, -1, 4, -1, -1, 5},
     {-1, 0, -1, -1, 1, -1, -1, 2, -1, -1, 3, -1, -1, 4, -1, -1},
     {-1, -1, 0, -1, -1, 1, -1, -1, 2, -1, -1, 3, -1, -1, 4, -1}},
    {{-1, -1, 6, -1, -1, 7, -1, -1, 8, -1, -1, 9, -1, -1, 10, -1},
     {5, -1, -1, 6, -1, -1, 7, -1, -1, 8, -1, -1, 9, -1, -1, 10},
     {-1, 5, -1, -1, 6, -1, -1, 7, -1, -1, 8, -1, -1, 9, -1, -1}},
    {{-1, 11, -1, -1, 12, -1, -1, 13, -1, -1, 14, -1, -1, 15, -1, -1},
     {-1, -1, 11, -1, -1, 12, -1, -1, 13, -1, -1, 14, -1, -1, 15, -1},
     {10, -1, -1, 11, -1, -1, 12, -1, -1, 13, -1, -1, 14, -1, -1, 15}}};

static __attribute__((target("avx2"))) void ecx_transpose_bytes(const void* input, void* output,
                                                                size_t input_stride,
                                                                size_t output_stride, size_t width,
                                                                size_t height) {
  const char* from = input;
  char* to = output;
  for (; height == 3 && output_stride == 3 && width >= 16; width -= 16, from += 16)
    for (size_t part = 0; part < 3; part++, to += 16) {
      __m128i x = _mm_setzero_si128();
      for (size_t row = 0; row < 3; row++)
        x = _mm_or_si128(x, _mm_shuffle_epi8(
            _mm_loadu_si128((const __m128i*) (from + row * input_stride)),
            _mm_loadu_si128((const __m128i*) ecx_third[part][row])));
      _mm_storeu_si128((__m128i*) to, x);
    }
  if (width)
    xnn_x8_transposec_ukernel__32x32_reuse_switch_avx2(
        (const void*) from, (void*) to, input_stride, output_stride, width, height);
}

void ecx_set_transpose(struct xnn_transpose_config* config) {
  if (xnn_init_hardware_config()->use_x86_avx2)
    config->x8.const_size_ukernel = ecx_transpose_bytes;
}
#endif
