/* cumsum: the input is converted to the output's dtype first, as eager does. */
#include <string.h>

#include "core/template.h"
#include "kernels/copy.h"
#include "kernels/reduce/reduce.h"

enum { CUMSUM_COLUMNS = 128 };

#define EC_TEMPLATE "kernels/reduce/cumsum.tmpl.h"
#include "core/foreach/all.h"
#undef EC_TEMPLATE

typedef void (*line_fn)(void *dst, int64_t ds, const void *src, int64_t ss, int64_t n);
typedef void (*columns_fn)(void *dst, int64_t ds, const void *src, int64_t ss, int64_t n,
                           int64_t k);
static const line_fn lines[EC_DTYPE_COUNT] = {EC_ROWS_ALL(cumsum_line)};
static const columns_fn columns[EC_DTYPE_COUNT] = {EC_ROWS_ALL(cumsum_columns)};

/* Sums of `out` along dimension `dim`, from `in` of the same dtype and sizes. */
static void run(const ec_tensor *in, const ec_tensor *out, size_t dim, bool plain) {
  int64_t sizes[EC_MAX_RANK];
  ec_iter it;
  memcpy(sizes, out->sizes, sizeof sizes);
  int64_t n = out->rank ? sizes[dim] : 1;
  int64_t ds = out->rank ? out->strides[dim] : 1, ss = out->rank ? in->strides[dim] : 1;
  if (out->rank) sizes[dim] = 1; /* the iterator walks the lines' starts */
  int64_t item = (int64_t)ec_dtype_size(ec_tensor_dtype(out));
  ec_iter_init(&it, out->rank, sizes);
  ec_iter_add(&it, out->data, (size_t)item, out->rank, sizes, out->strides);
  ec_iter_add(&it, in->data, (size_t)item, out->rank, sizes, in->strides);
  for (bool more = n && ec_iter_start(&it); more; more = ec_iter_next(&it)) {
    bool side_by_side = !plain && it.step[0] == item && it.step[1] == item;
    for (int64_t i = 0, k; i < it.count; i += k) {
      char *to = it.at[0] + i * it.step[0], *from = it.at[1] + i * it.step[1];
      k = side_by_side ? it.count - i : 1;
      if (k > CUMSUM_COLUMNS) k = CUMSUM_COLUMNS;
      if (k > 1) columns[out->dtype](to, ds, from, ss, n, k);
      else lines[out->dtype](to, ds, from, ss, n);
    }
  }
}

ec_status ec_op_cumsum_out(ec_call *c) {
  const ec_tensor *in = ec_arg_tensor(c, 0);
  ec_tensor *out = ec_arg_tensor(c, 3);
  ec_reduce_plan plan;
  ec_dtype dtype;
  size_t dim;
  EC_TRY(ec_call_wrap_dim(c, ec_arg_int(c, 1), in->rank, &dim));
  EC_TRY(ec_reduce_dtype(c, 2, 3, &dtype));
  ec_reduce_shape(&plan, in, 0, false);
  EC_TRY(ec_reduce_resize(c, &plan, 3));
  EC_TRY(ec_reduce_cast(c, &plan, dtype, &in));
  plan.in.data = in->data;
  run(&plan.in, out, dim, c->reference);
  return EC_OK;
}
