/* Products of few rows with AVX-512, whose weights are read once.
 *
 * XNNPACK's kernel of seven rows multiplies seven if there are two, and that of one row waits for
 * each sum before it adds to it, because it has only two of them. Here a block is as wide as it
 * takes to keep eight sums: two panels of 32 columns for two rows, four for one, one for three or
 * four. Each sum is that
 * of XNNPACK's kernels, in their order. */
#include "executorch_c/corrections/hook.h"
#include "xnnpack/gemm.h"
#include "xnnpack/hardware-config.h"
#include "xnnpack/microfnptr.h"
#include "xnnpack/microparams.h"

#if XNN_ARCH_X86_64 && XNN_ENABLE_AVX512F
#include <immintrin.h>

#define ECX_AVX512 __attribute__((target("avx512f")))
#define ECX_INLINE static inline ECX_AVX512 __attribute__((always_inline))

enum {
  ECX_WIDTH = 32,          /* columns of a panel */
  ECX_MAX_PANELS = 4,
  ECX_FEW = 4,             /* rows: more are as fast with the kernel of seven */
  ECX_NEAR = 1 << 19       /* bytes of weights that are read from a cache */
};

/* The arguments of a kernel that are the same for all blocks. Strides are in bytes. */
struct ecx_product {
  const float* a;
  size_t last; /* row */
  size_t depth, a_stride, c_stride;
  __m512 least, most;
};

/* Computes `rows` of `panels` whole panels, or of the first `columns` of one. Of four rows the last
 * may be the third one again. */
ECX_INLINE void ecx_block(const struct ecx_product* p, size_t rows, size_t panels, const float* w,
                          float* c, size_t columns) {
  const size_t next = ECX_WIDTH * (p->depth + 1);
  const float* a[ECX_FEW];
  float* to[ECX_FEW];
  __m512 sums[2 * ECX_MAX_PANELS][ECX_FEW];
#pragma GCC unroll 4
  for (size_t r = 0; r < rows; r++) {
    const size_t row = rows == ECX_FEW && r > p->last ? p->last : r;
    a[r] = (const float*) ((uintptr_t) p->a + row * p->a_stride);
    to[r] = (float*) ((uintptr_t) c + row * p->c_stride);
  }
#pragma GCC unroll 8
  for (size_t i = 0; i < 2 * panels; i++)
#pragma GCC unroll 4
    for (size_t r = 0; r < rows; r++) sums[i][r] = _mm512_loadu_ps(w + i / 2 * next + i % 2 * 16);
  for (size_t k = 0; k < p->depth; k++) {
    w += ECX_WIDTH;
    __m512 x[ECX_FEW];
#pragma GCC unroll 4
    for (size_t r = 0; r < rows; r++) x[r] = _mm512_set1_ps(a[r][k]);
#pragma GCC unroll 8
    for (size_t i = 0; i < 2 * panels; i++) {
      __m512 y = _mm512_loadu_ps(w + i / 2 * next + i % 2 * 16);
      if (rows > 1) __asm__("" : "+v"(y)); /* loaded once, not by each product */
#pragma GCC unroll 4
      for (size_t r = 0; r < rows; r++) sums[i][r] = _mm512_fmadd_ps(x[r], y, sums[i][r]);
    }
  }
#pragma GCC unroll 8
  for (size_t i = 0; i < 2 * panels; i++) {
    const size_t at = 16 * i, left = columns > at ? columns - at : 0;
    const __mmask16 mask = (__mmask16) (left < 16 ? (1u << left) - 1 : 0xffff);
#pragma GCC unroll 4
    for (size_t r = 0; r < rows; r++)
      _mm512_mask_storeu_ps(to[r] + at, mask,
                            _mm512_min_ps(p->most, _mm512_max_ps(p->least, sums[i][r])));
  }
}

/* Computes `rows` of all columns, `panels` panels at once. */
ECX_INLINE void ecx_rows(const struct ecx_product* p, size_t rows, size_t panels, const float* w,
                         float* c, size_t columns) {
  const size_t next = ECX_WIDTH * (p->depth + 1);
  for (; columns >= panels * ECX_WIDTH; columns -= panels * ECX_WIDTH) {
    ecx_block(p, rows, panels, w, c, panels * ECX_WIDTH);
    w += panels * next;
    c += panels * ECX_WIDTH;
  }
  while (columns) {
    const size_t part = columns < ECX_WIDTH ? columns : ECX_WIDTH;
    ecx_block(p, rows, 1, w, c, part);
    w += next;
    c += part;
    columns -= part;
  }
}

static ECX_AVX512 void ecx_multiply_rows(size_t rows, size_t columns, size_t depth, const float* a,
                                         size_t a_stride, const float* w, float* c,
                                         size_t c_stride, size_t block_stride,
                                         const union xnn_f32_minmax_params* params) {
  const bool is_far = depth * columns > ECX_NEAR;
  if (rows > ECX_FEW || block_stride != ECX_WIDTH * sizeof *c || (rows == 1 && is_far)) {
    (rows == 1 ? xnn_f32_gemm_minmax_ukernel_1x32__avx512f_broadcast
               : xnn_f32_gemm_minmax_ukernel_7x32__avx512f_broadcast)(
        rows, columns, depth, a, a_stride, w, c, c_stride, block_stride, params);
    return;
  }
  const struct ecx_product p = {a, rows - 1, depth / sizeof *a, a_stride, c_stride,
                                _mm512_set1_ps(params->scalar.min),
                                _mm512_set1_ps(params->scalar.max)};
  switch (rows) {
    case 1: ecx_rows(&p, 1, 4, w, c, columns); break;
    case 2: ecx_rows(&p, 2, 2, w, c, columns); break;
    default: ecx_rows(&p, ECX_FEW, 1, w, c, columns);
  }
}

void ecx_set_f32_gemm(struct xnn_gemm_config* config) {
  if (XNN_PLATFORM_MOBILE || !xnn_init_hardware_config()->use_x86_avx512f) return;
  config->minmax.gemm[0] = config->minmax.gemm[6] =
      xnn_init_hmp_gemm_ukernel((xnn_gemm_ukernel_fn) ecx_multiply_rows);
}
#elif XNN_ARCH_X86_64
void ecx_set_f32_gemm(struct xnn_gemm_config* config) { (void) config; }
#endif
