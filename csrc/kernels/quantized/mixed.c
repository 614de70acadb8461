/* Products of floating-point matrices with quantised weights. Blocks of the weight are dequantised
 * to float32 and multiplied, also for float16 and bfloat16. */
#include <inttypes.h>

#include "core/checked.h"
#include "kernels/linalg/gemm.h"
#include "kernels/quantized/affine.h"

enum { BLOCK_FLOATS = 65536 }; /* of the weight at once */

typedef struct product {
  const ec_tensor *weight;
  ec_affine_rows rows;
  bool transposed; /* linear: the weight's rows are columns of the product */
  ec_gemm_size size;
  ec_tensor in, out;   /* float32 */
  float *packed, *block; /* one quantised row; some dequantised ones */
} product;

/* Returns `count` columns of the product's right side from column `first` on. */
static ec_gemm_side right_side(const product *p, int64_t first, int64_t count) {
  const ec_tensor *w = p->weight;
  const ec_cast_fn cast = ec_cast(EC_FLOAT32, EC_INT8);
  const int64_t rows = p->transposed ? count : p->size.k, n = p->transposed ? p->size.k : count;
  for (int64_t r = 0; r < rows; r++) {
    const int64_t row = p->transposed ? first + r : r, column = p->transposed ? 0 : first;
    const char *from = (const char *)w->data + row * w->strides[0] + column * w->strides[1];
    cast(n, (char *)p->packed, 4, from, w->strides[1]);
    ec_affine_row(&p->rows, row, n, p->packed, p->block + r * n);
  }
  return (ec_gemm_side){.data = p->block, .lane = p->transposed ? n : 1,
                        .k = p->transposed ? 1 : n};
}

static ec_status multiply_blocks(ec_call *c, product *p) {
  const ec_gemm_size size = p->size;
  int64_t columns = ec_max_i64(1, BLOCK_FLOATS / ec_max_i64(1, size.k));
  columns = ec_min_i64(columns, size.n);
  ec_gemm_size part = {size.m, columns, size.k};
  ec_gemm_out to = {.data = p->out.data, .row = p->out.strides[0], .col = p->out.strides[1]};
  const ec_gemm_side a = {.data = p->in.data, .lane = p->in.strides[0], .k = p->in.strides[1]};
  ec_gemm g;
  EC_TRY(ec_gemm_init(c, EC_FLOAT32, part, &to, &g));
  const int64_t row = p->transposed ? size.k : columns;
  EC_TRY(ec_call_scratch(c, (size_t)row, sizeof(float), &p->packed));
  EC_TRY(ec_call_scratch(c, (size_t)columns * (size_t)size.k, sizeof(float), &p->block));
  for (int64_t at = 0; at < size.n; at += columns) {
    part.n = ec_min_i64(columns, size.n - at);
    ec_gemm_resize(&g, part);
    const ec_gemm_side b = right_side(p, at, part.n);
    to.data = (float *)p->out.data + at * to.col;
    ec_gemm_run(&g, &a, &b, &to);
  }
  return EC_OK;
}

/* Checks scales or zero points (argument `i`): one per row of the weight, or at most `most`
 * groups. */
static ec_status check_numbers(ec_call *c, size_t i, size_t most) {
  const ec_tensor *t = ec_arg_tensor(c, i), *weight = ec_arg_tensor(c, 1);
  EC_TRY(ec_call_check_same_dtype(c, i, 0));
  EC_TRY(ec_call_check_rank(c, i, 1, most));
  if (t->sizes[0] != weight->sizes[0])
    return ec_call_fail(c, i, "%" PRId64 " rows, expected %" PRId64 " as in 'weight'", t->sizes[0],
                        weight->sizes[0]);
  if (t->rank == 2 && t->sizes[1] == 0) return ec_call_fail(c, i, "no groups of columns");
  if (i == 3 && !ec_tensor_same_sizes(t, ec_arg_tensor(c, 2)))
    return ec_call_fail(c, i, "expected the shape of 'weight_scales'");
  return EC_OK;
}

/* Returns argument `i` as float32: itself, or a tensor in scratch memory, filled if `read`. */
static ec_status in_float32(ec_call *c, size_t i, bool read, ec_tensor *t) {
  *t = *ec_arg_tensor(c, i);
  if (t->dtype == EC_FLOAT32) return EC_OK;
  EC_TRY(ec_call_like(c, t, EC_FLOAT32, t));
  if (read) ec_copy_cast(c, t, ec_arg_tensor(c, i));
  return EC_OK;
}

/* Multiplies argument 0 by the weight (1) into argument `o`. */
static ec_status run_mixed(ec_call *c, bool transposed, size_t o) {
  const ec_tensor *in = ec_arg_tensor(c, 0), *w = ec_arg_tensor(c, 1);
  const ec_tensor *scale = ec_arg_tensor(c, 2);
  product p = {.weight = w, .transposed = transposed};
  EC_TRY(ec_call_check_dtype(c, 0, EC_SET_SINGLE));
  EC_TRY(ec_call_check_dtype(c, 1, EC_BIT(EC_INT8)));
  for (size_t i = 0; i < 2; i++) EC_TRY(ec_call_check_rank(c, i, 2, 2));
  EC_TRY(ec_call_check_rank(c, o, 2, 2));
  EC_TRY(check_numbers(c, 2, transposed ? 2 : 1));
  if (!ec_arg_is_none(c, 3)) EC_TRY(check_numbers(c, 3, transposed ? 2 : 1));
  if (in->sizes[1] != w->sizes[transposed])
    return ec_call_fail(c, 1, "%" PRId64 " %s, expected %" PRId64 ", the columns of 'input'",
                        w->sizes[transposed], transposed ? "columns" : "rows", in->sizes[1]);
  p.size = (ec_gemm_size){in->sizes[0], w->sizes[!transposed], in->sizes[1]};
  const int64_t groups = scale->rank == 2 ? scale->sizes[1] : 1;
  const int64_t row = transposed ? p.size.k : p.size.n; /* the last group may be shorter */
  p.rows = (ec_affine_rows){scale, ec_arg_opt_tensor(c, 3), row / groups + (row % groups != 0),
                            EC_FLOAT32};
  EC_TRY(ec_call_resize(c, o, 2, (int64_t[]){p.size.m, p.size.n}));
  ec_tensor *out = ec_arg_tensor(c, o);
  if (out->numel == 0) return EC_OK;
  EC_TRY(in_float32(c, 0, true, &p.in));
  EC_TRY(in_float32(c, o, false, &p.out));
  EC_TRY(multiply_blocks(c, &p));
  if (p.out.data != out->data) ec_copy_cast(c, out, &p.out);
  return EC_OK;
}

ec_status ec_op_mixed_mm_out(ec_call *c) {
  EC_TRY(ec_call_check_same_dtype(c, 4, 0));
  return run_mixed(c, false, 4);
}

ec_status ec_op_mixed_linear_out(ec_call *c) {
  const int64_t dtype = ec_arg_opt_int(c, 4, ec_tensor_dtype(ec_arg_tensor(c, 0)));
  if (dtype < 0 || dtype >= EC_DTYPE_COUNT || !ec_dtype_in((ec_dtype)dtype, EC_SET_SINGLE))
    return ec_call_fail(c, 4, "dtype %" PRId64 ", expected float32, float16 or bfloat16", dtype);
  EC_TRY(ec_call_check_dtype(c, 5, EC_BIT(dtype)));
  return run_mixed(c, true, 5);
}
