/* Affine quantisation: q = round(x / scale) + zero point and x = (q - zero point) * scale, with one
 * scale per tensor, per index of an axis, or per row.
 *
 * torch computes a chain of tensor operations whose dtypes promote, with rounding to float16 or
 * bfloat16 after each. The loops below compute the whole chain at once. Scales and zero points are
 * operands of the pointwise engine that broadcast to the input, so one walk serves all kinds. */
#ifndef EC_KERNELS_QUANTIZED_AFFINE_H
#define EC_KERNELS_QUANTIZED_AFFINE_H

#include "kernels/pointwise/elementwise.h"

/* An input with its scales and zero points, which broadcast to it. */
typedef struct ec_affine {
  ec_tensor x, scale, zero;
  ec_dtype as;  /* the dtype that the input is converted to first, or its own */
  bool no_zero; /* no zero points */
} ec_affine;

/* Returns a number as an operand; `number` stores it. */
ec_tensor ec_affine_number(ec_number *number, ec_dtype dtype, ec_scalar s);

/* Returns a tensor with one number per index of `axis` (or a single one), broadcast to `rank`
 * dims. */
ec_tensor ec_affine_along(const ec_tensor *t, size_t rank, size_t axis);

/* Checks that argument `i` is a dtype for quantised tensors. */
ec_status ec_affine_check_dtype(ec_call *c, size_t i);

/* Checks the arguments quant_min, quant_max and dtype at `i`, i + 1, i + 2. */
ec_status ec_affine_check_range(ec_call *c, size_t i);

/* Quantises into argument `out`, which gets the input's shape and the dtype of argument `range` +
 * 2; quant_min and quant_max are at `range`. a->scale holds inverses. `late`: rounds after the
 * addition of the zero point instead of before it. */
ec_status ec_affine_quantize(ec_call *c, ec_affine *a, size_t range, bool late, size_t out);

/* Replaces a->scale by 1 / scale, rounded to the dtype of the scales (float32 for integers). */
ec_status ec_affine_invert(ec_call *c, ec_affine *a);

/* Dequantises into argument `out` (any dtype), which gets the input's shape. The dtypes promote:
 * input with zero points, then with scales. */
ec_status ec_affine_dequantize(ec_call *c, ec_affine *a, size_t out);

/* Rows of a quantised matrix: `group` columns of a row share a scale and a zero point. These are in
 * matrices with a column per group, or in vectors. */
typedef struct ec_affine_rows {
  const ec_tensor *scale, *zero; /* zero may be NULL */
  int64_t group;
  ec_dtype dtype; /* rounding of each step: float32, float16 or bfloat16 */
} ec_affine_rows;

/* Dequantises the first n columns of `row` from x to `out`. */
void ec_affine_row(const ec_affine_rows *rows, int64_t row, int64_t n, const float *x, float *out);

#endif
