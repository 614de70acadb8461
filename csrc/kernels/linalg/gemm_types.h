/* A matrix product: its operands, its size, and its blocks. */
#ifndef EC_KERNELS_LINALG_GEMM_TYPES_H
#define EC_KERNELS_LINALG_GEMM_TYPES_H

#include "kernels/call.h"
#include "kernels/linalg/micro.h"

/* The part of a side in a packed panel: `lanes` rows of A (columns of B) from lane0, `depth` steps
 * of k from k0. */
typedef struct ec_gemm_panel {
  int64_t lane0, lanes, k0, depth;
} ec_gemm_panel;

typedef struct ec_gemm_side ec_gemm_side;
struct ec_kept;

/* Writes dst[i * width + lane] in the compute type, with zeros from panel->lanes up to width. */
typedef void (*ec_gemm_pack)(const ec_gemm_side *side, const ec_gemm_panel *panel, size_t width,
                             void *dst);

/* Lists what a panel of B reads in place. */
typedef void (*ec_gemm_list)(const ec_gemm_side *side, const ec_gemm_panel *panel,
                             ec_micro_taps *taps);

/* A (lanes are its rows) or B (lanes are its columns). */
struct ec_gemm_side {
  ec_gemm_pack pack;    /* NULL: a strided matrix */
  ec_gemm_list list;    /* of a B stored as computed, for machines that read taps; NULL: packed */
  const void *data;
  int64_t lane, k;      /* strides in elements */
  const void *geometry; /* for other packing functions */
  struct ec_kept *kept; /* of a constant side, which is packed once; NULL: in each call */
  int64_t variant;      /* distinguishes the geometries of kept sides */
  bool turned;          /* a B with contiguous k: sums in the order of one with contiguous lanes */
};

typedef struct ec_gemm_out {
  void *data;
  int64_t row, col;         /* strides in elements */
  int64_t line, next;       /* if line > 0: columns per line, and elements to the next line */
  const void *add;          /* D, or NULL */
  int64_t add_row, add_col; /* its strides: 0 repeats */
  ec_scalar alpha, beta;    /* kind EC_KIND_NONE counts as 1 */
} ec_gemm_out;

/* A is m x k, B is k x n. */
typedef struct ec_gemm_size {
  int64_t m, n, k;
} ec_gemm_size;

typedef struct ec_gemm {
  int64_t m, n, k; /* as computed */
  ec_dtype dtype;
  bool reference, swapped; /* swapped: computed as the transposed product */
  const ec_micro *micro;
  int64_t rows, cols, depth; /* of one block */
  void *a, *b, *sums;
  int64_t room; /* elements of sums */
  ec_threads *threads;
  struct ec_record *record; /* of a call whose operands are its arguments; NULL: none */
} ec_gemm;

#endif
