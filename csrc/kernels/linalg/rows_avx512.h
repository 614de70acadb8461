/* Products of one or two float32 rows with AVX-512. */
#ifndef EC_KERNELS_LINALG_ROWS_AVX512_H
#define EC_KERNELS_LINALG_ROWS_AVX512_H

#include "kernels/linalg/gemm_types.h"

enum { EC_ROWS512_COLUMNS = 64 /* of a panel */ };

/* True if ec_rows512_panels computes the rows of a product. */
bool ec_rows512_is_available(const ec_gemm *g);

/* Computes C = A B + D, or without D, of one or two rows, with the bits of axpy. Whole panels of B
 * are read from `panels`, from the last one on if `backwards`. `out` has contiguous columns, no
 * lines and no factors. */
void ec_rows512_panels(const ec_gemm *g, const ec_gemm_side *a, const ec_gemm_side *b,
                       const float *panels, bool backwards, const ec_gemm_out *out);

#endif
