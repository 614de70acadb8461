/* One index tensor for one dimension: embedding and index_select. */
#include <string.h>

#include "kernels/index/index.h"
#include "kernels/pages.h"

static void scale_offsets(int64_t *at, int64_t n, int64_t stride) {
  for (int64_t i = 0; i < n; i++) at[i] *= stride;
}

ec_status ec_op_embedding_out(ec_call *c) {
  const ec_tensor *weight = ec_arg_tensor(c, 0), *indices = ec_arg_tensor(c, 1);
  ec_tensor *out = ec_arg_tensor(c, 5);
  int64_t sizes[EC_MAX_RANK], *from, *to;
  size_t rank = indices->rank;
  if (weight->rank != 2)
    return ec_call_fail(c, 0, "%u dimensions, expected 2", (unsigned)weight->rank);
  if (rank == EC_MAX_RANK)
    return ec_call_fail(c, 1, "the result has more than %d dimensions", EC_MAX_RANK);
  ec_table table = {.dtype = ec_tensor_dtype(weight), .n = indices->numel};
  int64_t row = weight->strides[0], width = weight->sizes[1], column = weight->strides[1];
  EC_TRY(ec_call_check_dtype(c, 5, EC_BIT(table.dtype)));
  EC_TRY(ec_index_read(c, 1, indices, 0, weight->sizes[0], false, &from));
  memcpy(sizes, indices->sizes, rank * sizeof *sizes);
  sizes[rank] = width;
  EC_TRY(ec_call_resize(c, 5, rank + 1, sizes));
  scale_offsets(from, table.n, row);
  EC_TRY(ec_index_offsets(c, rank, sizes, out->strides, &to));
  table.from = from;
  table.to = to;
  ec_table_dim(&table, width, out->strides[rank], column);
  ec_table_run(c, &table, out->data, weight->data, EC_TABLE_DISTINCT);
  ec_pages_read_rows(c->pages, weight, from, row, table.n);
  return EC_OK;
}

ec_status ec_op_index_select_out(ec_call *c) {
  const ec_tensor *self = ec_arg_tensor(c, 0), *index = ec_arg_tensor(c, 2);
  ec_tensor *out = ec_arg_tensor(c, 3), in = *self;
  int64_t *from, *to;
  size_t dim;
  EC_TRY(ec_call_wrap_dim(c, ec_arg_int(c, 1), in.rank, &dim));
  if (index->rank > 1)
    return ec_call_fail(c, 2, "%u dimensions, expected at most 1", (unsigned)index->rank);
  if (in.rank == 0 && index->numel != 1)
    return ec_call_fail(c, 2, "a 0-d tensor takes exactly one index");
  ec_table table = {.dtype = ec_tensor_dtype(&in), .n = index->numel};
  EC_TRY(ec_call_check_dtype(c, 3, EC_BIT(table.dtype)));
  EC_TRY(ec_index_read(c, 2, index, dim, in.rank ? in.sizes[dim] : 1, false, &from));
  int64_t sizes[EC_MAX_RANK], zero = 0;
  memcpy(sizes, in.sizes, sizeof sizes);
  if (in.rank) sizes[dim] = table.n;
  EC_TRY(ec_call_resize(c, 3, in.rank, sizes));
  scale_offsets(from, table.n, in.rank ? in.strides[dim] : 1);
  EC_TRY(ec_index_offsets(c, 1, &table.n, in.rank ? &out->strides[dim] : &zero, &to));
  table.from = from;
  table.to = to;
  for (size_t d = 0; d < in.rank; d++)
    if (d != dim) ec_table_dim(&table, in.sizes[d], out->strides[d], in.strides[d]);
  ec_table_run(c, &table, out->data, self->data, EC_TABLE_DISTINCT);
  return EC_OK;
}
