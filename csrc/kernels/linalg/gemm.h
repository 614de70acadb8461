/* The one matrix product: C = alpha * A B + beta * D for every dtype of EC_SET_CLASSICC.
 *
 * A and B come through a packing function, so that a convolution reads its input in place where a
 * matrix would stand; C and D are strided. Blocks of A and B are packed into scratch memory of
 * bounded size, a micro-kernel multiplies panels of them (micro.h), and the sums of a block stay in
 * the computing type (float for halves) until all of k is done. */
#ifndef EC_KERNELS_LINALG_GEMM_H
#define EC_KERNELS_LINALG_GEMM_H

#include "kernels/call.h"
#include "kernels/linalg/micro.h"

/* The part of a side that a packed panel holds: `lanes` rows of A (columns of B) from lane0,
 * `depth` steps of k from k0. */
typedef struct ec_gemm_panel {
  int64_t lane0, lanes, k0, depth;
} ec_gemm_panel;

typedef struct ec_gemm_side ec_gemm_side;

/* Writes dst[i * width + lane] in the computing type, with zeros from panel->lanes up to width. */
typedef void (*ec_gemm_pack)(const ec_gemm_side *side, const ec_gemm_panel *panel, size_t width,
                             void *dst);

/* A (lanes are its rows) or B (lanes are its columns). */
struct ec_gemm_side {
  ec_gemm_pack pack;    /* NULL: a strided matrix */
  const void *data;
  int64_t lane, k;      /* strides in elements */
  const void *geometry; /* of other packing functions */
};

typedef struct ec_gemm_out {
  void *data;
  int64_t row, col;         /* strides in elements */
  int64_t line, next;       /* line > 0: so many columns, then `next` elements to the next line */
  const void *add;          /* D, or NULL */
  int64_t add_row, add_col; /* its strides: 0 repeats */
  ec_scalar alpha, beta;    /* of kind EC_KIND_NONE they count as 1 */
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
} ec_gemm;

/* Chooses blocks and takes scratch memory for any number of products of one size (m, n and k of
 * `size`) into outputs with the strides of `out`. */
ec_status ec_gemm_init(ec_call *c, ec_dtype dtype, ec_gemm_size size, const ec_gemm_out *out,
                       ec_gemm *g);

/* The packing function of strided matrices of a dtype. */
ec_gemm_pack ec_gemm_pack_strided(ec_dtype dtype);

/* Changes the size to one that is nowhere larger than at the start. */
void ec_gemm_resize(ec_gemm *g, ec_gemm_size size);

/* One product. All of A, B and D must be readable and C writable by their strides. */
void ec_gemm_run(const ec_gemm *g, const ec_gemm_side *a, const ec_gemm_side *b,
                 const ec_gemm_out *out);

#endif
