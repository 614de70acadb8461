/* Chains in vectors of AVX-512: the branches of the calls are the same for all vectors, so that the
 * processor predicts them. */
#include "kernels/pointwise/chain.h"

#include "core/simd.h"

#if EC_SIMD_X86
#include <immintrin.h>

#define TARGET __attribute__((target("avx512f")))

enum { LANES = 16, VECTORS = 8 /* at once: their operations overlap */ };

/* Replaces the vectors by the results of a form. */
#define EACH(operand, result)                                                                      \
  _Pragma("GCC unroll 8") for (int v = 0; v < vectors; v++) {                                      \
    const __m512 x = sum[v], y = operand;                                                          \
    sum[v] = result;                                                                               \
  }                                                                                                \
  break;
#define LOAD(from) _mm512_maskz_loadu_ps(lanes, (from) + v * LANES)

/* Computes elements from `at` on: all lanes of `vectors` vectors, or some of one. */
TARGET static inline __attribute__((always_inline)) void run_vectors(
    const int vectors, const __mmask16 lanes, int64_t at, float *out, const float *in,
    const ec_chain_step *steps, size_t count) {
  __m512 sum[VECTORS];
#pragma GCC unroll 8
  for (int v = 0; v < vectors; v++) sum[v] = LOAD(in + at);
  for (size_t i = 0; i < count; i++) {
    const float *with = steps[i].with;
    const __m512 number = _mm512_set1_ps(steps[i].number);
    switch (2 * (int)steps[i].form + (with != NULL)) {
#define EC_FORM(form, result)                                                                      \
  case 2 * EC_CHAIN_##form: EACH(number, result)                                                   \
  case 2 * EC_CHAIN_##form + 1: EACH(LOAD(with + at), result)
#include "kernels/pointwise/chain.def"
#undef EC_FORM
    default: break;
    }
  }
#pragma GCC unroll 8
  for (int v = 0; v < vectors; v++)
    if (lanes == 0xffff) _mm512_storeu_ps(out + at + v * LANES, sum[v]);
    else _mm512_mask_storeu_ps(out + at + v * LANES, lanes, sum[v]);
}

TARGET void ec_chain_run(int64_t n, float *out, const float *in, const ec_chain_step *steps,
                         size_t count) {
  int64_t i = 0;
  for (; i + VECTORS * LANES <= n; i += VECTORS * LANES)
    run_vectors(VECTORS, 0xffff, i, out, in, steps, count);
  for (; i < n; i += LANES) {
    const unsigned rest = n - i < LANES ? (1u << (n - i)) - 1u : 0xffffu;
    run_vectors(1, (__mmask16)rest, i, out, in, steps, count);
  }
}

bool ec_chain_is_available(void) { return __builtin_cpu_supports("avx512f"); }
#else
bool ec_chain_is_available(void) { return false; }

void ec_chain_run(int64_t n, float *out, const float *in, const ec_chain_step *steps,
                  size_t count) {
  (void)n, (void)out, (void)in, (void)steps, (void)count;
}
#endif
