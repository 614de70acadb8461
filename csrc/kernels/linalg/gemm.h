/* The one matrix product: C = alpha * A B + beta * D for every dtype of EC_SET_CLASSICC.
 *
 * A and B come through a packing function, so that a convolution reads its input in place where a
 * matrix would stand; C and D are strided. Blocks of A and B are packed into scratch memory of
 * bounded size, a micro-kernel multiplies panels of them (micro.h), and the sums of a block stay in
 * the computing type (float for halves) until all of k is done. */
#ifndef EC_KERNELS_LINALG_GEMM_H
#define EC_KERNELS_LINALG_GEMM_H

#include "kernels/call.h"
#include "kernels/linalg/gemm_types.h"

/* Chooses blocks and allocates scratch memory for any number of products of one size (m, n and k of
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
