/* Batches of matrices: copies between tensors and scratch memory. */
#include "kernels/decomp/decomp.h"

#include <inttypes.h>
#include <string.h>

#include "core/checked.h"

ec_status ec_dec_init(ec_call *c, size_t i, ec_dec *d) {
  const ec_tensor *t = ec_arg_tensor(c, i);
  ec_dtype dtype = ec_tensor_dtype(t);
  *d = (ec_dec){.c = c, .dtype = dtype, .is_complex = ec_is_complex(dtype)};
  d->compute = d->is_complex ? EC_COMPLEX128 : EC_FLOAT64;
  d->real = dtype == EC_COMPLEX64 ? EC_FLOAT32 : dtype == EC_COMPLEX128 ? EC_FLOAT64 : dtype;
  EC_TRY(ec_call_check_dtype(c, i, c->op->dtypes));
  EC_TRY(ec_call_check_rank(c, i, 2, EC_MAX_RANK));
  d->rank = t->rank - 2u;
  memcpy(d->sizes, t->sizes, d->rank * sizeof *d->sizes);
  d->m = t->sizes[d->rank];
  d->n = t->sizes[d->rank + 1];
  return EC_OK;
}

ec_status ec_dec_batch(ec_dec *d, size_t i, size_t rank) {
  EC_TRY(ec_call_check_rank(d->c, i, rank, EC_MAX_RANK));
  ec_tensor t = *ec_arg_tensor(d->c, i);
  t.rank = (uint8_t)(t.rank - rank);
  return ec_call_broadcast(d->c, i, &t, &d->rank, d->sizes);
}

ec_status ec_dec_input(ec_dec *d, size_t i, size_t rank) {
  ec_dtype actual = ec_tensor_dtype(ec_arg_tensor(d->c, i));
  if (actual != d->dtype)
    return ec_call_fail(d->c, i, "dtype %s, expected %s", ec_dtype_name(actual),
                        ec_dtype_name(d->dtype));
  return ec_dec_batch(d, i, rank);
}

ec_status ec_dec_square(ec_dec *d, size_t i) {
  if (d->m == d->n) return EC_OK;
  return ec_call_fail(d->c, i, "matrices of %" PRId64 " x %" PRId64 ", expected square ones", d->m,
                      d->n);
}

ec_status ec_dec_expect(ec_dec *d, size_t i, size_t rank, int64_t rows, int64_t cols) {
  const ec_tensor *t = ec_arg_tensor(d->c, i);
  const int64_t *sizes = t->sizes + (t->rank - rank);
  if (sizes[0] == rows && (rank == 1 || sizes[1] == cols)) return EC_OK;
  char text[EC_SHAPE_TEXT], wanted[EC_SHAPE_TEXT];
  return ec_call_fail(d->c, i, "shape %s, expected %s at its end",
                      ec_shape_text(t->sizes, t->rank, text, sizeof text),
                      ec_shape_text((int64_t[]){rows, cols}, rank, wanted, sizeof wanted));
}

ec_status ec_dec_output(ec_dec *d, size_t i, ec_dtype dtype, size_t rank, int64_t rows,
                        int64_t cols) {
  int64_t sizes[EC_MAX_RANK + 2];
  size_t total = d->rank + rank;
  EC_TRY(ec_call_check_dtype(d->c, i, EC_BIT(dtype)));
  EC_TRY(ec_call_check_rank(d->c, i, total, total));
  memcpy(sizes, d->sizes, d->rank * sizeof *sizes);
  sizes[d->rank] = rows;
  sizes[d->rank + 1] = cols;
  return ec_call_resize(d->c, i, total, sizes);
}

ec_status ec_dec_output_none(ec_dec *d, size_t i) {
  EC_TRY(ec_call_check_rank(d->c, i, 1, 1));
  return ec_call_resize(d->c, i, 1, (int64_t[]){0});
}

static ec_status alloc_scratch(ec_dec *d, int64_t count, int64_t count2, size_t size, void *out) {
  int64_t total;
  if (!ec_mul_i64(count, count2, &total) || total < 0)
    return ec_fail(d->c->err, EC_MEMORY_ALLOCATION_FAILED, "no memory for a matrix");
  return ec_call_scratch(d->c, (size_t)total, size, out);
}

ec_status ec_dec_room(ec_dec *d, int64_t count, int64_t count2, void *out) {
  return alloc_scratch(d, count, count2, ec_dtype_size(d->compute), out);
}

ec_status ec_dec_add(ec_dec *d, ec_dec_operand operand) {
  size_t k = d->operands++;
  d->operand[k] = operand;
  return alloc_scratch(d, operand.rows, operand.cols, ec_dtype_size(operand.dtype), &d->at[k]);
}

/* Returns views of a tensor's item at `index` of the batch, and of scratch memory in its shape. */
static void views_of(const ec_dec *d, size_t k, const ec_tensor *t, const int64_t *index,
                     bool in, ec_view *item, ec_view *scratch) {
  const ec_dec_operand *o = &d->operand[k];
  size_t batch = t->rank - o->rank;
  int64_t at = 0;
  bool transposed = o->transposed & (in ? EC_TRANSPOSE_IN : EC_TRANSPOSE_OUT);
  for (size_t b = 0; b < batch; b++)
    if (t->sizes[b] != 1) at += index[d->rank - batch + b] * t->strides[b];
  *item = (ec_view){.dtype = ec_tensor_dtype(t), .rank = o->rank};
  item->data = (char *)t->data + at * (int64_t)ec_dtype_size(item->dtype);
  *scratch = (ec_view){.data = d->at[k], .dtype = o->dtype, .rank = o->rank};
  for (size_t i = 0; i < o->rank; i++) {
    item->sizes[i] = scratch->sizes[i] = t->sizes[batch + i];
    item->strides[i] = t->strides[batch + i];
    scratch->strides[i] = (i == 1) != transposed ? o->rows : 1;
  }
}

static void move_item(ec_dec *d, const int64_t *index, bool in) {
  for (size_t k = 0; k < d->operands; k++) {
    const ec_dec_operand *o = &d->operand[k];
    size_t bytes = (size_t)(o->rows * o->cols) * ec_dtype_size(o->dtype);
    if (in) memset(d->at[k], 0, bytes);
    int arg = in ? o->in : o->out;
    if (arg == EC_DEC_NONE) continue;
    const ec_tensor *t = ec_arg_tensor(d->c, (size_t)arg);
    if (t->numel == 0) continue;
    ec_view item, scratch;
    views_of(d, k, t, index, in, &item, &scratch);
    if (in) ec_copy_view(d->c, &scratch, &item);
    else ec_copy_view(d->c, &item, &scratch);
  }
}

ec_status ec_dec_run(ec_dec *d, ec_dec_fn fn) {
  int64_t index[EC_MAX_RANK] = {0};
  bool any = false;
  for (size_t k = 0; k < d->operands; k++)
    if (d->operand[k].out != EC_DEC_NONE)
      any |= ec_arg_tensor(d->c, (size_t)d->operand[k].out)->numel > 0;
  for (size_t b = 0; b < d->rank; b++) any &= d->sizes[b] > 0;
  for (d->item = 0; any; d->item++) {
    move_item(d, index, true);
    EC_TRY(fn(d));
    move_item(d, index, false);
    size_t b = d->rank;
    while (b > 0 && ++index[b - 1] == d->sizes[b - 1]) index[--b] = 0;
    if (b == 0) break;
  }
  return EC_OK;
}

ec_status ec_dec_check(ec_dec *d, const char *what) {
  if (!d->info) return EC_OK;
  return ec_fail(d->c->err, EC_INVALID_ARGUMENT,
                 "matrix %" PRId64 " of the batch: %s (%" PRId32 ")", d->info_item, what, d->info);
}
