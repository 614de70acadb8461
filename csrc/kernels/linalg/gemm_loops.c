/* The table of matrix product loops by dtype. */
#include "kernels/linalg/gemm_loops.h"

#include <string.h>

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
  L1_ELEMENTS = 1 << 12, /* as many stay in a first-level cache */
  L2_ELEMENTS = 1 << 16
};
typedef float lanes __attribute__((vector_size(LANES * sizeof(float))));

/* Computes the sums of axpy_float32, with the same bits, of VECTORS * LANES columns. They stay in
 * registers. */
static inline __attribute__((always_inline)) void sum_columns(const ec_gemm *g, const float *x,
                                                              int64_t step, const float *y,
                                                              int64_t next, float *out) {
  lanes s[VECTORS] = {{0}}, y0, y1, y2, y3;
  int64_t k = 0;
  for (; k + 4 <= g->k; k += 4, y += 4 * next) {
    const float x0 = x[k * step], x1 = x[(k + 1) * step], x2 = x[(k + 2) * step];
    const float x3 = x[(k + 3) * step];
#pragma GCC unroll 4
    for (int v = 0; v < VECTORS; v++) {
      memcpy(&y0, y + v * LANES, sizeof y0);
      memcpy(&y1, y + next + v * LANES, sizeof y1);
      memcpy(&y2, y + 2 * next + v * LANES, sizeof y2);
      memcpy(&y3, y + 3 * next + v * LANES, sizeof y3);
      s[v] += (x0 * y0 + x1 * y1) + (x2 * y2 + x3 * y3);
    }
  }
  for (; k < g->k; k++, y += next)
#pragma GCC unroll 4
    for (int v = 0; v < VECTORS; v++) {
      memcpy(&y0, y + v * LANES, sizeof y0);
      s[v] += x[k * step] * y0;
    }
  memcpy(out, s, sizeof s);
}

/* Returns the number of columns that are done. */
EC_CLONES static int64_t sum_blocks(const ec_gemm *g, const ec_gemm_side *a, const ec_gemm_side *b,
                                    int64_t row, float *out) {
  const float *x = (const float *)a->data + row * a->lane, *y = b->data;
  int64_t j = 0;
  for (; j + VECTORS * LANES <= g->n; j += VECTORS * LANES)
    sum_columns(g, x, a->k, y + j, b->k, out + j);
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

EC_CLONES static void sum_panels(const ec_gemm *g, const float *x, int64_t step,
                                 const float *panels, bool backwards, float *sums) {
  const int64_t count = ec_gemm_panel_columns(g) / (VECTORS * LANES);
  for (int64_t i = 0; i < count; i++) {
    const int64_t j = (backwards ? count - 1 - i : i) * VECTORS * LANES;
    sum_columns(g, x, step, panels + j * g->k, VECTORS * LANES, sums + j);
  }
}

void ec_gemm_sum_panels(const ec_gemm *g, const ec_gemm_side *a, const ec_gemm_side *b, int64_t row,
                        const float *panels, bool backwards, float *sums) {
  const float *x = (const float *)a->data + row * a->lane;
  sum_panels(g, x, a->k, panels, backwards, sums);
  sum_rest(g, a, b, row, ec_gemm_panel_columns(g), sums);
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

#define ROW_OF(name, pack, store, axpy, type, in_place)                                            \
  {EC_KEEP(name, pack),        EC_KEEP(name, store),            EC_KEEP(name, axpy),               \
   EC_KEEP(name, dot_##name),  EC_KEEP(name, reference_##name), type, in_place}
#define ROW(name, type, in_place)                                                                  \
  ROW_OF(name, pack_##name, store_##name, axpy_##name, type, in_place)

const ec_gemm_loops ec_gemm_loops_of[EC_DTYPE_COUNT] = {
    [EC_FLOAT16] = ROW(float16, EC_MICRO_FLOAT, false),
    [EC_BFLOAT16] = ROW(bfloat16, EC_MICRO_FLOAT, false),
    [EC_FLOAT32] = ROW_OF(float32, EC_IS_SMALL ? pack_float32 : pack_quads,
                          EC_IS_SMALL ? store_float32 : store_turned,
                          EC_IS_SMALL ? axpy_float32 : axpy_near, EC_MICRO_FLOAT, true),
    [EC_FLOAT64] = ROW(float64, EC_MICRO_DOUBLE, true),
    [EC_UINT8] = ROW(uint8, EC_MICRO_UINT32, false),
    [EC_INT8] = ROW(int8, EC_MICRO_UINT32, false),
    [EC_INT16] = ROW(int16, EC_MICRO_UINT32, false),
    [EC_INT32] = ROW(int32, EC_MICRO_UINT32, true),
    [EC_INT64] = ROW(int64, EC_MICRO_UINT64, true),
    [EC_COMPLEX64] = ROW(complex64, EC_MICRO_COMPLEX64, true),
    [EC_COMPLEX128] = ROW(complex128, EC_MICRO_COMPLEX128, true),
};
