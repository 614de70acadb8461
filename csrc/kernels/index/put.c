/* put: elements by their row-major index, for any layout. */
#include <inttypes.h>

#include "kernels/index/index.h"

/* Converts row-major indices to offsets. */
static void to_offsets(const ec_tensor *t, int64_t *at, int64_t n) {
  if (ec_tensor_is_contiguous(t)) return;
  for (int64_t i = 0; i < n; i++) {
    int64_t rest = at[i], offset = 0;
    for (size_t d = t->rank; d-- > 0;) {
      offset += rest % t->sizes[d] * t->strides[d];
      rest /= t->sizes[d];
    }
    at[i] = offset;
  }
}

ec_status ec_op_put_out(ec_call *c) {
  const ec_tensor *self = ec_arg_tensor(c, 0), *index = ec_arg_tensor(c, 1);
  const ec_tensor *source = ec_arg_tensor(c, 2);
  ec_tensor *out = ec_arg_tensor(c, 4);
  int64_t *to, *from;
  EC_TRY(ec_call_check_dtype(c, 1, EC_BIT(EC_INT64)));
  EC_TRY(ec_call_check_same_dtype(c, 2, 0));
  EC_TRY(ec_call_check_same_dtype(c, 4, 0));
  if (source->numel != index->numel)
    return ec_call_fail(c, 2, "%" PRId64 " elements for %" PRId64 " indices", source->numel,
                        index->numel);
  ec_table table = {.dtype = ec_tensor_dtype(self), .n = index->numel};
  EC_TRY(ec_index_read(c, 1, index, 0, self->numel, true, &to));
  EC_TRY(ec_index_offsets(c, source->rank, source->sizes, source->strides, &from));
  EC_TRY(ec_call_resize(c, 4, self->rank, self->sizes));
  ec_copy_cast(c, out, self);
  to_offsets(out, to, table.n);
  table.to = to;
  table.from = from;
  ec_table_how how = ec_arg_bool(c, 3) ? EC_TABLE_ADD : EC_TABLE_MOVE;
  ec_table_run(c, &table, out->data, source->data, how);
  return EC_OK;
}
