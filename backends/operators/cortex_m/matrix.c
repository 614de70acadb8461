/* Products of int8 matrices: arm_fully_connected_s8 and arm_batch_matmul_s8. */
#include "matrix.h"

#include "dot.h"
#include "requantize.h"

/* A product [batch, rows, inner] x [batch, columns, inner]^T. */
typedef struct product {
  const int8_t *a, *b;
  int8_t *out;
  int64_t rows, columns, inner;
  int64_t a_rank, out_rank; /* of the rows: dimensions before the last one */
  int64_t a_sizes[CM_RANK], a_strides[CM_RANK], out_strides[CM_RANK];
  int64_t b_batch, b_column, b_inner; /* strides of b; b_batch 0: one matrix for all rows */
  int64_t batch_rows;                 /* rows of a that use one matrix of b */
  int32_t a_offset, b_offset, offset, low, high;
  const int32_t *bias; /* by column; NULL: none */
  cm_factor factor;
} product;

/* Returns the offset of a row: an index of all dimensions but the last one. */
static int64_t row_offset(const product *p, const int64_t *strides, int64_t row) {
  int64_t offset = 0;
  for (int64_t d = p->a_rank - 1; d >= 0; d--) {
    offset += row % p->a_sizes[d] * strides[d];
    row /= p->a_sizes[d];
  }
  return offset;
}

static void product_rows(void *user, size_t begin, size_t end) {
  const product *p = user;
  for (int64_t row = (int64_t)begin; row < (int64_t)end; row++) {
    const int8_t *b = p->b + row / p->batch_rows * p->b_batch;
    const cm_vector x = {p->a + row_offset(p, p->a_strides, row), p->a_strides[p->a_rank],
                         p->a_offset};
    int8_t *out = p->out + row_offset(p, p->out_strides, row);
    for (int64_t k = 0; k < p->columns; k++) {
      const cm_vector y = {b + k * p->b_column, p->b_inner, p->b_offset};
      const int32_t sum = cm_add(cm_dot(x, y, p->inner), p->bias ? p->bias[k] : 0);
      const int32_t value = cm_add(cm_requantize(sum, p->factor), p->offset);
      out[k * p->out_strides[p->a_rank]] = (int8_t)cm_clamp(value, p->low, p->high);
    }
  }
}

/* Sets the left side, and the data of both. */
static void product_set(const cm_call *c, size_t b, product *p) {
  const ec_backend_tensor *x = cm_tensor(c, 0);
  p->a = x->data;
  p->b = cm_tensor(c, b)->data;
  p->a_rank = x->rank - 1;
  p->inner = x->sizes[p->a_rank];
  p->rows = 1;
  for (int64_t d = 0; d <= p->a_rank; d++) {
    p->a_sizes[d] = x->sizes[d];
    p->a_strides[d] = x->strides[d];
    if (d < p->a_rank) p->rows *= x->sizes[d];
  }
}

/* Resizes the output, whose sizes are those of the left side but for the last, and computes it. */
static uint32_t product_run(const cm_call *c, size_t out, product *p) {
  int64_t sizes[CM_RANK];
  for (int64_t d = 0; d < p->a_rank; d++) sizes[d] = p->a_sizes[d];
  sizes[p->a_rank] = p->columns;
  EC_BACKEND_TRY(cm_check(c, out, "out", EC_DTYPE_INT8, -1));
  EC_BACKEND_TRY(c->host->resize(c->call, &c->args[out], (size_t)p->a_rank + 1, sizes));
  const ec_backend_tensor *to = cm_tensor(c, out);
  for (int64_t d = 0; d <= p->a_rank; d++) p->out_strides[d] = to->strides[d];
  p->out = to->data;
  const double cost = (double)p->columns * ((double)p->inner + 1);
  EC_ARG_PARALLEL(c, p->columns ? p->rows : 0, cost, product_rows, p);
  return EC_BACKEND_OK;
}

/* Reads the first items of 'requantize_multipliers' and 'requantize_shifts': the weights have one
 * scale. */
static uint32_t linear_factor(const cm_call *c, cm_factor *factor) {
  const ec_backend_arg *multipliers = &c->args[7], *shifts = &c->args[8];
  if (!multipliers->as.list.count || !shifts->as.list.count)
    return EC_ARG_FAIL(c,
                       "'requantize_multipliers' has %zu and 'requantize_shifts' %zu items, "
                       "expected 1",
                       multipliers->as.list.count, shifts->as.list.count);
  return cm_set_factor(c, "requantize", multipliers->as.list.items[0].as.i,
                       shifts->as.list.items[0].as.i, factor);
}

/* Sets offsets and the sum that is added to each column. With 'kernel_sum' (cores with MVE), it
 * includes the bias and the input's offset; otherwise (DSP, scalar) they are applied here. */
static uint32_t linear_sums(const cm_call *c, product *p) {
  const bool has_sum = c->args[3].kind == EC_BACKEND_TENSOR;
  const size_t i = has_sum ? 3 : 2;
  if (c->args[i].kind == EC_BACKEND_TENSOR) {
    EC_BACKEND_TRY(
        cm_check_vector(c, i, has_sum ? "kernel_sum" : "bias", EC_DTYPE_INT32, p->columns));
    p->bias = cm_tensor(c, i)->data;
  }
  EC_BACKEND_TRY(cm_int32(c, 4, "input_offset", &p->a_offset));
  EC_BACKEND_TRY(cm_int32(c, 5, "filter_offset", &p->b_offset));
  if (has_sum) p->a_offset = 0;
  return EC_BACKEND_OK;
}

uint32_t cm_quantized_linear(const cm_call *c) {
  product p = {0};
  EC_BACKEND_TRY(cm_check(c, 0, "input", EC_DTYPE_INT8, -1));
  EC_BACKEND_TRY(cm_check(c, 1, "weights", EC_DTYPE_INT8, 2));
  const ec_backend_tensor *x = cm_tensor(c, 0), *w = cm_tensor(c, 1);
  if (!x->rank || x->sizes[x->rank - 1] != w->sizes[1])
    return EC_ARG_FAIL(c, "'input' has %lld features, 'weights' have %lld",
                       x->rank ? (long long)x->sizes[x->rank - 1] : 0, (long long)w->sizes[1]);
  product_set(c, 1, &p);
  p.columns = w->sizes[0];
  p.b_column = w->strides[0];
  p.b_inner = w->strides[1];
  p.batch_rows = p.rows ? p.rows : 1;
  EC_BACKEND_TRY(linear_sums(c, &p));
  EC_BACKEND_TRY(cm_int32(c, 6, "output_offset", &p.offset));
  EC_BACKEND_TRY(linear_factor(c, &p.factor));
  EC_BACKEND_TRY(cm_int32(c, 9, "activation_max", &p.high));
  EC_BACKEND_TRY(cm_int32(c, 10, "activation_min", &p.low));
  return product_run(c, 11, &p);
}

/* The zero points are negated, as CMSIS-NN's offsets. */
uint32_t cm_quantized_batch_matmul(const cm_call *c) {
  product p = {.low = INT8_MIN, .high = INT8_MAX};
  EC_BACKEND_TRY(cm_check(c, 0, "lhs", EC_DTYPE_INT8, 3));
  EC_BACKEND_TRY(cm_check(c, 2, "rhs_transposed", EC_DTYPE_INT8, 3));
  const ec_backend_tensor *x = cm_tensor(c, 0), *y = cm_tensor(c, 2);
  if (x->sizes[0] != y->sizes[0] || x->sizes[2] != y->sizes[2])
    return EC_ARG_FAIL(c, "'lhs' has %lld matrices of %lld columns, 'rhs_transposed' %lld of %lld",
                       (long long)x->sizes[0], (long long)x->sizes[2], (long long)y->sizes[0],
                       (long long)y->sizes[2]);
  product_set(c, 2, &p);
  p.columns = y->sizes[1];
  p.b_batch = y->strides[0];
  p.b_column = y->strides[1];
  p.b_inner = y->strides[2];
  p.batch_rows = x->sizes[1] ? x->sizes[1] : 1;
  EC_BACKEND_TRY(cm_int32(c, 1, "lhs_zero_point", &p.a_offset));
  EC_BACKEND_TRY(cm_int32(c, 3, "rhs_zero_point", &p.b_offset));
  EC_BACKEND_TRY(cm_int32(c, 4, "output_zero_point", &p.offset));
  EC_BACKEND_TRY(cm_read_factor(c, 5, "output", &p.factor));
  return product_run(c, 8, &p);
}
