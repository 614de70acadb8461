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

/* Computes one row of A times B into `row` of C, for contiguous columns (axpy) or rows (dot) of
 * B. */
typedef void (*ec_gemm_vector)(const ec_gemm *g, const ec_gemm_side *a, const ec_gemm_side *b,
                               int64_t row, void *sums);

typedef struct ec_gemm_loops {
  ec_gemm_pack pack;
  ec_gemm_store store;
  ec_gemm_vector axpy, dot;
  void (*reference)(const ec_gemm *g, const ec_gemm_side *a, const ec_gemm_side *b,
                    const ec_gemm_out *out);
  ec_micro_type type;
  bool in_place; /* stored as computed: a panel may be read in place */
} ec_gemm_loops;

extern const ec_gemm_loops ec_gemm_loops_of[EC_DTYPE_COUNT];

#endif
