/* topk: values and positions of the k largest or smallest along a dimension, best first. */
#include <inttypes.h>
#include <string.h>

#include "core/template.h"
#include "kernels/index/index.h"

typedef struct topk_row {
  const char *x;
  char *values, *indices;
  int64_t n, k, x_step, value_step, index_step; /* steps in bytes */
  bool largest;
  void *heap;
  int64_t *positions;
} topk_row;

#define EC_TEMPLATE "kernels/index/topk.tmpl.h"
#include "core/foreach/real.h"
#undef EC_TEMPLATE

typedef void (*row_fn)(const topk_row *row);
static const row_fn rows[EC_DTYPE_COUNT] = {EC_ROWS_REAL(topk_row)};

static void run(const ec_tensor *in, const ec_tensor *values, const ec_tensor *indices, size_t dim,
                topk_row row) {
  int64_t sizes[EC_MAX_RANK];
  size_t item = ec_dtype_size(ec_tensor_dtype(in)), rank = in->rank;
  ec_iter it;
  memcpy(sizes, in->sizes, sizeof sizes);
  if (rank) {
    sizes[dim] = 1; /* the iterator walks the rows' starts */
    row.x_step = in->strides[dim] * (int64_t)item;
    row.value_step = values->strides[dim] * (int64_t)item;
    row.index_step = indices->strides[dim] * (int64_t)sizeof(int64_t);
  }
  ec_iter_init(&it, rank, sizes);
  ec_iter_add(&it, values->data, item, rank, sizes, values->strides);
  ec_iter_add(&it, indices->data, sizeof(int64_t), rank, sizes, indices->strides);
  ec_iter_add(&it, in->data, item, rank, sizes, in->strides);
  for (bool more = ec_iter_start(&it); more; more = ec_iter_next(&it))
    for (int64_t i = 0; i < it.count; i++) {
      row.values = it.at[0] + i * it.step[0];
      row.indices = it.at[1] + i * it.step[1];
      row.x = it.at[2] + i * it.step[2];
      rows[in->dtype](&row);
    }
}

ec_status ec_op_topk_values(ec_call *c) {
  ec_tensor in = *ec_arg_tensor(c, 0);
  int64_t sizes[EC_MAX_RANK], k = ec_arg_int(c, 1);
  size_t dim;
  EC_TRY(ec_call_check_dtype(c, 0, EC_SET_REAL));
  EC_TRY(ec_call_wrap_dim(c, ec_arg_int(c, 2), in.rank, &dim));
  int64_t n = in.rank ? in.sizes[dim] : 1;
  if (k < 0 || k > n)
    return ec_call_fail(c, 1, "%" PRId64 ", but dimension %zu has %" PRId64 " elements", k, dim, n);
  EC_TRY(ec_call_check_dtype(c, 5, EC_BIT(in.dtype)));
  EC_TRY(ec_call_check_dtype(c, 6, EC_BIT(EC_INT64)));
  memcpy(sizes, in.sizes, sizeof sizes);
  if (in.rank) sizes[dim] = k;
  EC_TRY(ec_call_resize(c, 5, in.rank, sizes));
  EC_TRY(ec_call_resize(c, 6, in.rank, sizes));
  if (ec_arg_tensor(c, 5)->numel == 0) return EC_OK;
  topk_row row = {.n = n, .k = k, .largest = ec_arg_bool(c, 3)};
  EC_TRY(ec_call_scratch(c, (size_t)k, sizeof(int64_t), &row.heap)); /* holds any EC_C */
  EC_TRY(ec_call_scratch(c, (size_t)k, sizeof *row.positions, &row.positions));
  in.data = ec_arg_tensor(c, 0)->data;
  run(&in, ec_arg_tensor(c, 5), ec_arg_tensor(c, 6), dim, row);
  return EC_OK;
}
