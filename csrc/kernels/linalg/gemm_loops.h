/* The loops of a matrix product that depend on the stored dtype. */
#ifndef EC_KERNELS_LINALG_GEMM_LOOPS_H
#define EC_KERNELS_LINALG_GEMM_LOOPS_H

#include "kernels/linalg/gemm_types.h"

/* A tile of sums (NULL: zeros) with `rows` x `cols` elements, stored to C at (row, col). */
typedef struct ec_gemm_tile {
  const void *sums;
  size_t stride;
  int64_t row, col, rows, cols;
} ec_gemm_tile;

typedef void (*ec_gemm_store)(const ec_gemm_out *out, const ec_gemm_tile *tile);

/* Computes one row of A times B into `row` of C, for contiguous columns (axpy) or rows (dot, or
 * turned: in the order of axpy) of B. */
typedef void (*ec_gemm_vector)(const ec_gemm *g, const ec_gemm_side *a, const ec_gemm_side *b,
                               int64_t row, void *sums);

typedef struct ec_gemm_loops {
  ec_gemm_pack pack;
  ec_gemm_store store;
  ec_gemm_vector axpy, dot, turned;
  void (*reference)(const ec_gemm *g, const ec_gemm_side *a, const ec_gemm_side *b,
                    const ec_gemm_out *out);
  ec_micro_type type;
  bool in_place; /* stored as computed: a panel may be read in place */
} ec_gemm_loops;

extern const ec_gemm_loops ec_gemm_loops_of[EC_DTYPE_COUNT];

/* Returns the columns of a product of float32 whose B is packed in panels for ec_gemm_sum_panels;
 * 0: it is not worth it, or does not stay in the cache. */
int64_t ec_gemm_panel_columns(const ec_gemm *g);

/* Packs these columns of B: panels of all of k. */
void ec_gemm_pack_panels(const ec_gemm *g, const ec_gemm_side *b, float *panels);

/* Computes the sums of axpy for float32, with the same bits, of all rows, one or two, from the
 * first panel on, or from the last one. */
void ec_gemm_sum_panels(const ec_gemm *g, const ec_gemm_side *a, const ec_gemm_side *b,
                        const float *panels, bool backwards, float *sums);

#endif
