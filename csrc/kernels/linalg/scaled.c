/* _scaled_mm: a product of float8 matrices with scales, of the matrix or of each row of the first
 * and column of the second one. Computed in float32. */
#include <inttypes.h>

#include "kernels/copy.h"
#include "kernels/linalg/gemm.h"

enum { SELF, MAT2, SCALE_A, SCALE_B, BIAS, SCALE_RESULT, OUT_DTYPE, FAST_ACCUM, OUT };

/* Reads a float32 argument of one element or of `n`, in row-major order. */
static ec_status read_floats(ec_call *c, size_t i, int64_t n, const float **values, int64_t *step) {
  const ec_tensor *t = ec_arg_tensor(c, i);
  void *data;
  if (t->numel != 1 && t->numel != n)
    return ec_call_fail(c, i, "%" PRId64 " elements, expected 1 or %" PRId64, t->numel, n);
  EC_TRY(ec_call_check_dtype(c, i, EC_SET_SINGLE));
  EC_TRY(ec_call_packed(c, t, EC_FLOAT32, &data));
  *values = data;
  *step = t->numel == 1 ? 0 : 1;
  return EC_OK;
}

/* Copies a matrix as float32, with the scales of its rows (`by_row`) or columns multiplied in. */
static ec_status dequantize(ec_call *c, size_t i, size_t scale, bool by_row, float **out) {
  const ec_tensor *t = ec_arg_tensor(c, i);
  const float *scales = NULL;
  int64_t step = 0;
  void *data;
  EC_TRY(read_floats(c, scale, t->sizes[by_row ? 0 : 1], &scales, &step));
  EC_TRY(ec_call_packed(c, t, EC_FLOAT32, &data)); /* a copy: it is not float32 */
  *out = data;
  for (int64_t row = 0, k = 0; row < t->sizes[0]; row++)
    for (int64_t column = 0; column < t->sizes[1]; column++, k++)
      (*out)[k] *= scales[step * (by_row ? row : column)];
  return EC_OK;
}

static ec_status check_matrices(ec_call *c) {
  for (size_t i = SELF; i <= MAT2; i++) {
    EC_TRY(ec_call_check_dtype(c, i, EC_SET_FLOAT8));
    EC_TRY(ec_call_check_rank(c, i, 2, 2));
  }
  EC_TRY(ec_call_check_rank(c, OUT, 2, 2));
  EC_TRY(ec_call_check_dtype(c, OUT, EC_SET_SINGLE | EC_SET_FLOAT8));
  const int64_t depth = ec_arg_tensor(c, SELF)->sizes[1];
  const int64_t rows = ec_arg_tensor(c, MAT2)->sizes[0];
  if (rows == depth) return EC_OK;
  return ec_call_fail(c, MAT2, "%" PRId64 " rows, expected %" PRId64 ", the columns of 'self'",
                      rows, depth);
}

/* Adds the bias, and divides by the scale of a float8 result; others have none, as in PyTorch. */
static ec_status finish(ec_call *c, float *product, int64_t m, int64_t n) {
  const float one = 1, zero = 0, *bias = &zero, *scale = &one;
  int64_t step = 0, unused;
  if (!ec_arg_is_none(c, BIAS)) EC_TRY(read_floats(c, BIAS, n, &bias, &step));
  if (!ec_arg_is_none(c, SCALE_RESULT) && ec_is_float8(ec_tensor_dtype(ec_arg_tensor(c, OUT))))
    EC_TRY(read_floats(c, SCALE_RESULT, 1, &scale, &unused));
  for (int64_t row = 0, k = 0; row < m; row++)
    for (int64_t column = 0; column < n; column++, k++)
      product[k] = (product[k] + bias[step * column]) / *scale;
  return EC_OK;
}

ec_status ec_op_scaled_mm_out(ec_call *c) {
  EC_TRY(check_matrices(c));
  const ec_tensor *self = ec_arg_tensor(c, SELF), *mat2 = ec_arg_tensor(c, MAT2);
  const ec_gemm_size size = {self->sizes[0], mat2->sizes[1], self->sizes[1]};
  float *a, *b, *product;
  EC_TRY(dequantize(c, SELF, SCALE_A, true, &a));
  EC_TRY(dequantize(c, MAT2, SCALE_B, false, &b));
  EC_TRY(ec_call_resize(c, OUT, 2, (int64_t[]){size.m, size.n}));
  EC_TRY(ec_call_scratch(c, (size_t)ec_arg_tensor(c, OUT)->numel, sizeof *product, &product));
  const ec_gemm_out to = {.data = product, .row = size.n, .col = 1};
  const ec_gemm_side rows = {.data = a, .lane = size.k, .k = 1};
  const ec_gemm_side columns = {.data = b, .lane = 1, .k = size.n};
  ec_gemm g;
  EC_TRY(ec_gemm_init(c, EC_FLOAT32, size, &to, &g));
  ec_gemm_run(&g, &rows, &columns, &to);
  EC_TRY(finish(c, product, size.m, size.n));
  const ec_tensor *out = ec_arg_tensor(c, OUT);
  const ec_view target = ec_view_of(out);
  ec_view source = target;
  uint8_t row_major[] = {0, 1};
  ec_strides(out->sizes, row_major, 2, source.strides);
  source.data = (char *)product;
  source.dtype = EC_FLOAT32;
  if (out->numel) ec_copy_view(c, &target, &source);
  return EC_OK;
}
