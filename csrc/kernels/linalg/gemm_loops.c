/* The table of matrix product loops by dtype. */
#include "kernels/linalg/gemm_loops.h"

#include <string.h>

#include "core/alloc.h"
#include "core/checked.h"
#include "core/complex.h"
#include "core/simd.h"
#include "core/small.h"
#include "core/template.h"

#define EC_TEMPLATE "kernels/linalg/gemm_loops.tmpl.h"
#include "kernels/linalg/foreach_gemm.h"
#undef EC_TEMPLATE

/* ---- one row times a B in the cache ---------------------------------------------------------- */

enum {
  LANES = 16,
  VECTORS = 4,
  ROWS = 2, /* at once */
  L1_ELEMENTS = 1 << 12, /* as many stay in a first-level cache */
  L2_ELEMENTS = 1 << 16
};
typedef float lanes __attribute__((vector_size(LANES * sizeof(float))));

/* Computes the sums of axpy_float32, with the same bits, of VECTORS * LANES columns and some rows,
 * from `x` on. They stay in registers. */
static inline __attribute__((always_inline)) void sum_columns(const ec_gemm *g, int rows,
                                                              const float *x, const ec_gemm_side *a,
                                                              const float *y, int64_t next,
                                                              float *out) {
  lanes s[ROWS][VECTORS] = {{{0}}}, y0, y1, y2, y3;
  int64_t k = 0;
  for (; k + 4 <= g->k; k += 4, x += 4 * a->k, y += 4 * next) {
#pragma GCC unroll 4
    for (int v = 0; v < VECTORS; v++) {
      memcpy(&y0, y + v * LANES, sizeof y0);
      memcpy(&y1, y + next + v * LANES, sizeof y1);
      memcpy(&y2, y + 2 * next + v * LANES, sizeof y2);
      memcpy(&y3, y + 3 * next + v * LANES, sizeof y3);
#pragma GCC unroll 2
      for (int r = 0; r < rows; r++) {
        const float *z = x + r * a->lane;
        s[r][v] += (z[0] * y0 + z[a->k] * y1) + (z[2 * a->k] * y2 + z[3 * a->k] * y3);
      }
    }
  }
  for (; k < g->k; k++, x += a->k, y += next)
#pragma GCC unroll 4
    for (int v = 0; v < VECTORS; v++) {
      memcpy(&y0, y + v * LANES, sizeof y0);
#pragma GCC unroll 2
      for (int r = 0; r < rows; r++) s[r][v] += x[r * a->lane] * y0;
    }
#pragma GCC unroll 2
  for (int r = 0; r < rows; r++) memcpy(out + r * g->n, s[r], sizeof s[r]);
}

/* Returns the number of columns that are done. */
EC_CLONES static int64_t sum_blocks(const ec_gemm *g, const ec_gemm_side *a, const ec_gemm_side *b,
                                    int64_t row, float *out) {
  const float *x = (const float *)a->data + row * a->lane, *y = b->data;
  int64_t j = 0;
  for (; j + VECTORS * LANES <= g->n; j += VECTORS * LANES)
    sum_columns(g, 1, x, a, y + j, b->k, out + j);
  return j;
}

/* Computes the columns from `done` on. */
static void sum_rest(const ec_gemm *g, const ec_gemm_side *a, const ec_gemm_side *b, int64_t row,
                     int64_t done, float *out) {
  if (done == g->n) return;
  ec_gemm rest = *g;
  ec_gemm_side from = *b;
  rest.n -= done;
  from.data = (const float *)b->data + done;
  axpy_float32(&rest, a, &from, row, out + done);
}

static void axpy_near(const ec_gemm *g, const ec_gemm_side *a, const ec_gemm_side *b, int64_t row,
                      void *out) {
  const int64_t done = g->n * g->k <= L2_ELEMENTS ? sum_blocks(g, a, b, row, out) : 0;
  sum_rest(g, a, b, row, done, out);
}

int64_t ec_gemm_panel_columns(const ec_gemm *g) {
  const int64_t elements = g->n * g->k;
  return elements < L1_ELEMENTS || elements > L2_ELEMENTS ? 0
                                                             : g->n - g->n % (VECTORS * LANES);
}

void ec_gemm_pack_panels(const ec_gemm *g, const ec_gemm_side *b, float *panels) {
  const float *from = b->data;
  for (int64_t j = 0; j < ec_gemm_panel_columns(g); j += VECTORS * LANES)
    for (int64_t k = 0; k < g->k; k++, panels += VECTORS * LANES)
      memcpy(panels, from + k * b->k + j, VECTORS * LANES * sizeof *panels);
}

static inline __attribute__((always_inline)) void sum_all(const ec_gemm *g, int rows,
                                                          const ec_gemm_side *a,
                                                          const float *panels, bool backwards,
                                                          float *sums) {
  const int64_t count = ec_gemm_panel_columns(g) / (VECTORS * LANES);
  for (int64_t i = 0; i < count; i++) {
    const int64_t j = (backwards ? count - 1 - i : i) * VECTORS * LANES;
    sum_columns(g, rows, a->data, a, panels + j * g->k, VECTORS * LANES, sums + j);
  }
}

EC_CLONES static void sum_panels(const ec_gemm *g, const ec_gemm_side *a, const float *panels,
                                 bool backwards, float *sums) {
  if (g->m == 1) sum_all(g, 1, a, panels, backwards, sums);
  else sum_all(g, ROWS, a, panels, backwards, sums);
}

void ec_gemm_sum_panels(const ec_gemm *g, const ec_gemm_side *a, const ec_gemm_side *b,
                        const float *panels, bool backwards, float *sums) {
  sum_panels(g, a, panels, backwards, sums);
  for (int64_t row = 0; row < g->m; row++)
    sum_rest(g, a, b, row, ec_gemm_panel_columns(g), sums + row * g->n);
}

/* ---- one row times a B with contiguous k ----------------------------------------------------- */

enum { AHEAD = 192 /* elements: the processor stops to read ahead at the end of a page */ };

/* Returns elements 0 and 2 (`from` 0) or 1 and 3 (1) of each four of both vectors. */
#define EC_HALVES(a, b, from)                                                                      \
  EC_SHUFFLE(a, b, (from), (from) + 2, (from) + 16, (from) + 18, (from) + 4, (from) + 6,           \
             (from) + 20, (from) + 22, (from) + 8, (from) + 10, (from) + 24, (from) + 26,          \
             (from) + 12, (from) + 14, (from) + 28, (from) + 30)
/* Returns groups i and k of four elements of a, then those of b. */
#define EC_GROUPS(a, b, i, k)                                                                      \
  EC_SHUFFLE(a, b, 4 * (i), 4 * (i) + 1, 4 * (i) + 2, 4 * (i) + 3, 4 * (k), 4 * (k) + 1,           \
             4 * (k) + 2, 4 * (k) + 3, 16 + 4 * (i), 17 + 4 * (i), 18 + 4 * (i), 19 + 4 * (i),     \
             16 + 4 * (k), 17 + 4 * (k), 18 + 4 * (k), 19 + 4 * (k))

/* Adds the products of LANES steps to the sums of LANES columns, four at a time: products, then
 * sums of two, then of four adjacent ones, then these in their order. */
static inline __attribute__((always_inline)) void add_steps(lanes *sums, const float *x,
                                                            const float *y, int64_t lane) {
  lanes p[LANES], step;
  memcpy(&step, x, sizeof step);
#pragma GCC unroll 16
  for (int r = 0; r < LANES; r++) {
    memcpy(&p[r], y + r * lane, sizeof p[r]);
    __builtin_prefetch(y + r * lane + AHEAD);
    p[r] *= step;
  }
#pragma GCC unroll 2
  for (int count = LANES / 2; count >= LANES / 4; count /= 2)
#pragma GCC unroll 8
    for (int r = 0; r < count; r++)
      p[r] = EC_HALVES(p[2 * r], p[2 * r + 1], 0) + EC_HALVES(p[2 * r], p[2 * r + 1], 1);
  const lanes a = EC_GROUPS(p[0], p[1], 0, 1), b = EC_GROUPS(p[0], p[1], 2, 3);
  const lanes c = EC_GROUPS(p[2], p[3], 0, 1), d = EC_GROUPS(p[2], p[3], 2, 3);
  *sums += EC_GROUPS(a, c, 0, 2);
  *sums += EC_GROUPS(a, c, 1, 3);
  *sums += EC_GROUPS(b, d, 0, 2);
  *sums += EC_GROUPS(b, d, 1, 3);
}

/* Adds the last products of a row to the sum of a column. */
static inline float add_last(float sum, const float *x, const float *y, int64_t count) {
  int64_t k = 0;
  for (; k + 4 <= count; k += 4)
    sum += (x[k] * y[k] + x[k + 1] * y[k + 1]) + (x[k + 2] * y[k + 2] + x[k + 3] * y[k + 3]);
  for (; k < count; k++) sum += x[k] * y[k];
  return sum;
}

/* Computes the sums of axpy_float32, with the same bits. Returns the number of columns that are
 * done. */
EC_CLONES static int64_t sum_rows(const float *x, const ec_gemm_side *b, int64_t n, int64_t k,
                                  float *out) {
  const int64_t steps = k - k % LANES;
  int64_t j = 0;
  for (; j + LANES <= n; j += LANES) {
    const float *y = (const float *)b->data + j * b->lane;
    lanes s = {0};
    for (int64_t i = 0; i < steps; i += LANES) add_steps(&s, x + i, y + i, b->lane);
    for (int r = 0; r < LANES; r++)
      out[j + r] = add_last(s[r], x + steps, y + r * b->lane + steps, k - steps);
  }
  return j;
}

/* turned_float32 in registers. */
static void turned_near(const ec_gemm *g, const ec_gemm_side *a, const ec_gemm_side *b, int64_t row,
                        void *out) {
  const float *x = (const float *)a->data + row * a->lane;
  const int64_t done = a->k == 1 ? sum_rows(x, b, g->n, g->k, out) : 0;
  ec_gemm rest = *g;
  ec_gemm_side from = *b;
  rest.n -= done;
  from.data = (const float *)b->data + done * b->lane;
  turned_float32(&rest, a, &from, row, (float *)out + done);
}

/* ---- packing of rows ------------------------------------------------------------------------ */

enum { QUAD = 4 };
typedef float quad __attribute__((vector_size(QUAD * sizeof(float))));

static inline void pack_quad(const float *from, int64_t lane, size_t width, float *to) {
  quad x[QUAD];
  for (int l = 0; l < QUAD; l++) memcpy(&x[l], from + l * lane, sizeof x[l]);
  const quad a = EC_SHUFFLE(x[0], x[1], 0, 4, 1, 5), b = EC_SHUFFLE(x[2], x[3], 0, 4, 1, 5);
  const quad c = EC_SHUFFLE(x[0], x[1], 2, 6, 3, 7), d = EC_SHUFFLE(x[2], x[3], 2, 6, 3, 7);
  x[0] = EC_SHUFFLE(a, b, 0, 1, 4, 5);
  x[1] = EC_SHUFFLE(a, b, 2, 3, 6, 7);
  x[2] = EC_SHUFFLE(c, d, 0, 1, 4, 5);
  x[3] = EC_SHUFFLE(c, d, 2, 3, 6, 7);
  for (size_t i = 0; i < QUAD; i++) memcpy(to + i * width, &x[i], sizeof x[i]);
}

/* pack_float32 for contiguous k: four lanes by four steps are transposed in registers. */
static void pack_quads(const ec_gemm_side *side, const ec_gemm_panel *panel, size_t width,
                       void *packed) {
  const float *from = (const float *)side->data + panel->lane0 * side->lane + panel->k0;
  const size_t rows = (size_t)panel->lanes, depth = (size_t)panel->depth;
  float *to = packed;
  if (side->k != 1 || rows < QUAD) {
    pack_float32(side, panel, width, packed);
    return;
  }
  for (size_t l = 0; l < rows; l += QUAD) {
    l = l + QUAD <= rows ? l : rows - QUAD; /* the last ones may be packed twice */
    const float *x = from + (int64_t)l * side->lane;
    size_t i = 0;
    for (; i + QUAD <= depth; i += QUAD) pack_quad(x + i, side->lane, width, to + i * width + l);
    for (; i < depth; i++)
      for (int64_t q = 0; q < QUAD; q++)
        to[i * width + l + (size_t)q] = x[q * side->lane + (int64_t)i];
  }
  for (size_t i = 0; i < depth && rows < width; i++)
    memset(to + i * width + rows, 0, (width - rows) * sizeof *to);
}

/* ---- storing of transposed products --------------------------------------------------------- */

/* store_float32, row by row of the transposed tile if those are contiguous. */
static void store_turned(const ec_gemm_out *out, const ec_gemm_tile *tile) {
  const bool plain = out->alpha.kind == EC_KIND_NONE && out->beta.kind == EC_KIND_NONE;
  const bool turned = plain && out->row == 1 && out->col != 1 && tile->sums;
  if (!turned) {
    store_float32(out, tile);
    return;
  }
  for (int64_t i = 0; i < tile->cols; i++) {
    const float *sums = (const float *)tile->sums + i, *add = out->add;
    float *to = (float *)out->data + tile->row + (tile->col + i) * out->col;
    if (add) add += tile->row * out->add_row + (tile->col + i) * out->add_col;
    for (int64_t r = 0; r < tile->rows; r++, sums += tile->stride)
      to[r] = add ? *sums + add[r * out->add_row] : *sums;
  }
}

#define ROW_OF(name, pack, store, axpy, turned, type, in_place)                                    \
  {EC_KEEP(name, pack),                                                                            \
   EC_KEEP(name, store),                                                                           \
   EC_KEEP(name, axpy),                                                                            \
   EC_KEEP(name, dot_##name),                                                                      \
   EC_IS_SMALL ? NULL : EC_KEEP(name, turned),                                                     \
   EC_KEEP(name, reference_##name),                                                                \
   type,                                                                                           \
   in_place}
#define ROW(name, type, in_place)                                                                  \
  ROW_OF(name, pack_##name, store_##name, axpy_##name, turned_##name, type, in_place)

const ec_gemm_loops ec_gemm_loops_of[EC_DTYPE_COUNT] = {
    [EC_FLOAT16] = ROW(float16, EC_MICRO_FLOAT, false),
    [EC_BFLOAT16] = ROW(bfloat16, EC_MICRO_FLOAT, false),
    [EC_FLOAT32] = ROW_OF(float32, EC_IS_SMALL ? pack_float32 : pack_quads,
                          EC_IS_SMALL ? store_float32 : store_turned,
                          EC_IS_SMALL ? axpy_float32 : axpy_near, turned_near, EC_MICRO_FLOAT,
                          true),
    [EC_FLOAT64] = ROW(float64, EC_MICRO_DOUBLE, true),
    [EC_UINT8] = ROW(uint8, EC_MICRO_UINT32, false),
    [EC_INT8] = ROW(int8, EC_MICRO_UINT32, false),
    [EC_INT16] = ROW(int16, EC_MICRO_UINT32, false),
    [EC_INT32] = ROW(int32, EC_MICRO_UINT32, true),
    [EC_INT64] = ROW(int64, EC_MICRO_UINT64, true),
    [EC_COMPLEX64] = ROW(complex64, EC_MICRO_COMPLEX64, true),
    [EC_COMPLEX128] = ROW(complex128, EC_MICRO_COMPLEX128, true),
};
