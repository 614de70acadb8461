/* The matrix product C = alpha * A B + beta * D for every dtype of EC_SET_CLASSICC.
 *
 * A packing function reads A and B, so that a convolution can read its input in place; C and D are
 * strided. Blocks of A and B are packed into scratch memory of bounded size, and a micro-kernel
 * multiplies panels of them (micro.h). The sums of a block stay in the compute type (float for
 * float16 and bfloat16) until all of k is done. */
#ifndef EC_KERNELS_LINALG_GEMM_H
#define EC_KERNELS_LINALG_GEMM_H

#include "kernels/call.h"
#include "kernels/linalg/gemm_types.h"

/* Chooses blocks and allocates scratch memory for any number of products of one size (m, n and k of
 * `size`) into outputs with the strides of `out`. */
ec_status ec_gemm_init(ec_call *c, ec_dtype dtype, ec_gemm_size size, const ec_gemm_out *out,
                       ec_gemm *g);

/* Returns the packing function for strided matrices of a dtype. */
ec_gemm_pack ec_gemm_pack_strided(ec_dtype dtype);

/* Changes the size. No dimension may exceed the initial one. */
void ec_gemm_resize(ec_gemm *g, ec_gemm_size size);

/* Runs one product. The strides must keep all of A, B and D readable and C writable. */
void ec_gemm_run(const ec_gemm *g, const ec_gemm_side *a, const ec_gemm_side *b,
                 const ec_gemm_out *out);

#endif
