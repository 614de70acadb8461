/* Micro-kernels for AVX-512: 12 rows of two vectors use 24 of the 32 registers for sums. */
#include "kernels/linalg/micro.h"

#include <stdint.h>
#include <string.h>

#include "core/simd.h"

#if EC_SIMD_X86
#include <immintrin.h>

#define EC_M_TARGET __attribute__((target("avx512f,fma")))
#define EC_M_BYTES 64
#define EC_M_THIRD 4
#define EC_M_COLS 2
#define EC_M_SET_FLOAT(x) ((vector_f)_mm512_set1_ps(x))
#define EC_M_SET_DOUBLE(x) ((vector_d)_mm512_set1_pd(x))
#define EC_M_FMA_FLOAT(a, b, c) ((vector_f)_mm512_fmadd_ps(a, b, c))
#define EC_M_FMA_DOUBLE(a, b, c) ((vector_d)_mm512_fmadd_pd(a, b, c))
#include "kernels/linalg/micro_isa.tmpl.h"

const ec_micro ec_micro_avx512[EC_MICRO_TYPES] = {EC_M_TABLE};

/* A mask makes the padding zeros; elements that it leaves out are not read. Whole vectors have no
 * mask: it costs a tenth of the time of a row of products. */
EC_M_TARGET static inline vector_f load_tap(const float *from, uint64_t inside) {
  const __mmask16 mask = (__mmask16)inside;
  if (mask == UINT16_MAX) return (vector_f)_mm512_loadu_ps(from);
  return (vector_f)_mm512_maskz_loadu_ps(mask, from);
}

#undef EC_M_FROM
#undef EC_M_BEGIN
#undef EC_M_LOAD
#undef EC_M_NEXT
#define EC_M_FROM const ec_micro_taps *taps
#define EC_M_BEGIN                                                                                 \
  const EC_M_T *b = taps->data;                                                                    \
  const ec_micro_tap *tap = taps->tap + taps->first, *const end = taps->tap + taps->count
#define EC_M_LOAD(v) load_tap(b + tap->offset + (v) * LANES, tap->inside >> ((v) * LANES))
#define EC_M_NEXT tap = tap + 1 < end ? tap + 1 : (b += taps->next, taps->tap)
#define EC_M_T float
#define EC_M_V vector_f
#define EC_M_U memory_f
#define EC_M_SET(x) EC_M_SET_FLOAT(x)
#define EC_M_FMA(a, b, c) EC_M_FMA_FLOAT(a, b, c)
#define EC_M_NAME(thirds) taps_##thirds
#include "kernels/linalg/micro_steps.tmpl.h"

const ec_micro_taps_fn ec_micro_taps_avx512[EC_MICRO_STEPS] = {taps_1, taps_2, taps_3};

EC_M_TARGET void ec_micro_pack_taps(size_t k, const ec_micro_taps *taps, size_t lanes, size_t width,
                                    float *to) {
  typedef float EC_M_T;
  EC_M_BEGIN;
  const __mmask16 written = (__mmask16)((1u << lanes) - 1);
  for (; k; k--, to += width, EC_M_NEXT)
    _mm512_mask_storeu_ps(to, written, (__m512)load_tap(b + tap->offset, tap->inside));
}
#else
void ec_micro_pack_taps(size_t k, const ec_micro_taps *taps, size_t lanes, size_t width,
                        float *to) {
  (void)k, (void)taps, (void)lanes, (void)width, (void)to;
}
#endif
