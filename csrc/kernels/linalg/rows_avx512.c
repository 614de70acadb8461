/* Products of one or two float32 rows with AVX-512: B is loaded once for both, and the sums of a
 * block of columns stay in registers. They are added in the order of axpy (gemm_loops.tmpl.h). */
#include "kernels/linalg/rows_avx512.h"

#include "core/simd.h"

#if EC_SIMD_X86
#include <immintrin.h>

#define TARGET __attribute__((target("avx512f")))
#define INLINE TARGET static inline __attribute__((always_inline))

enum {
  LANES = 16,
  VECTORS = EC_ROWS512_COLUMNS / LANES,
  ROWS = 2,
  STEPS = 4 /* of k whose products are added to the sums at once */
};

/* A block of columns: where its B begins, and the distance of its rows. */
typedef struct columns {
  const float *b;
  int64_t next, first, count;
} columns;

INLINE __mmask16 mask_of(const columns *c, int v) {
  const int64_t left = c->count - v * LANES;
  return (__mmask16)(left >= LANES ? 0xffff : left > 0 ? (1u << left) - 1 : 0);
}

/* Adds D to the sums, and stores them to C. */
INLINE void store(const ec_gemm_out *out, int64_t row, int64_t col, __mmask16 mask, __m512 sum) {
  if (out->add) {
    const float *add = (const float *)out->add + row * out->add_row + col * out->add_col;
    sum = _mm512_add_ps(sum, out->add_col ? _mm512_maskz_loadu_ps(mask, add)
                                          : _mm512_set1_ps(*add));
  }
  _mm512_mask_storeu_ps((float *)out->data + row * out->row + col, mask, sum);
}

INLINE __m512 load(const columns *c, int64_t k, int v, bool whole, const __mmask16 *masks) {
  const float *from = c->b + k * c->next + v * LANES;
  __m512 x = whole ? _mm512_loadu_ps(from) : _mm512_maskz_loadu_ps(masks[v], from);
  __asm__("" : "+v"(x)); /* loaded once, not by each product */
  return x;
}

/* Adds the products of `steps` steps, STEPS or one, from k on. */
INLINE void add_steps(const ec_gemm_side *a, int rows, const columns *c, int64_t k, int steps,
                      bool whole, const __mmask16 *masks, __m512 sums[VECTORS][ROWS]) {
  const float *x = (const float *)a->data + k * a->k;
#pragma GCC unroll 4
  for (int v = 0; v < VECTORS; v++) {
    __m512 y[STEPS];
#pragma GCC unroll 4
    for (int i = 0; i < steps; i++) y[i] = load(c, k + i, v, whole, masks);
#pragma GCC unroll 2
    for (int r = 0; r < rows; r++) {
      __m512 p[STEPS];
#pragma GCC unroll 4
      for (int i = 0; i < steps; i++)
        p[i] = _mm512_mul_ps(_mm512_set1_ps(x[r * a->lane + i * a->k]), y[i]);
      if (steps == STEPS)
        p[0] = _mm512_add_ps(_mm512_add_ps(p[0], p[1]), _mm512_add_ps(p[2], p[3]));
      sums[v][r] = _mm512_add_ps(sums[v][r], p[0]);
    }
  }
}

/* Computes the rows of a block of columns; whole vectors have no mask. */
INLINE void sum_block(const ec_gemm *g, const ec_gemm_side *a, int rows, const columns *c,
                      bool whole, const ec_gemm_out *out) {
  __mmask16 masks[VECTORS];
  __m512 sums[VECTORS][ROWS];
  int64_t k = 0;
#pragma GCC unroll 4
  for (int v = 0; v < VECTORS; v++) {
    masks[v] = mask_of(c, v);
#pragma GCC unroll 2
    for (int r = 0; r < rows; r++) sums[v][r] = _mm512_setzero_ps();
  }
  for (; k + STEPS <= g->k; k += STEPS) add_steps(a, rows, c, k, STEPS, whole, masks, sums);
  for (; k < g->k; k++) add_steps(a, rows, c, k, 1, whole, masks, sums);
#pragma GCC unroll 4
  for (int v = 0; v < VECTORS; v++)
#pragma GCC unroll 2
    for (int r = 0; r < rows; r++)
      if (whole || masks[v]) store(out, r, c->first + v * LANES, masks[v], sums[v][r]);
}

/* Computes columns from `first` on, at most those of a panel. */
INLINE void sum_next(const ec_gemm *g, const ec_gemm_side *a, int rows, const float *b,
                     int64_t next, int64_t first, const ec_gemm_out *out) {
  const columns c = {b, next, first, g->n - first};
  if (c.count >= EC_ROWS512_COLUMNS) sum_block(g, a, rows, &c, true, out);
  else sum_block(g, a, rows, &c, false, out);
}

INLINE void sum_panels(const ec_gemm *g, const ec_gemm_side *a, const ec_gemm_side *b, int rows,
                       const float *panels, bool backwards, const ec_gemm_out *out) {
  const int64_t count = g->n / EC_ROWS512_COLUMNS, rest = count * EC_ROWS512_COLUMNS;
  for (int64_t i = 0; i < count; i++) {
    const int64_t j = (backwards ? count - 1 - i : i) * EC_ROWS512_COLUMNS;
    sum_next(g, a, rows, panels + j * g->k, EC_ROWS512_COLUMNS, j, out);
  }
  if (rest < g->n) sum_next(g, a, rows, (const float *)b->data + rest, b->k, rest, out);
}

TARGET void ec_rows512_panels(const ec_gemm *g, const ec_gemm_side *a, const ec_gemm_side *b,
                              const float *panels, bool backwards, const ec_gemm_out *out) {
  if (g->m == 1) sum_panels(g, a, b, 1, panels, backwards, out);
  else sum_panels(g, a, b, ROWS, panels, backwards, out);
}

bool ec_rows512_is_available(const ec_gemm *g) {
  return g->micro == &ec_micro_avx512[EC_MICRO_FLOAT] && g->dtype == EC_FLOAT32;
}
#else
bool ec_rows512_is_available(const ec_gemm *g) {
  (void)g;
  return false;
}

void ec_rows512_panels(const ec_gemm *g, const ec_gemm_side *a, const ec_gemm_side *b,
                       const float *panels, bool backwards, const ec_gemm_out *out) {
  (void)g, (void)a, (void)b, (void)panels, (void)backwards, (void)out;
}
#endif
