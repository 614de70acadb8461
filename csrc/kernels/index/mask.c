/* Non-zero elements: nonzero, masked_select, masked_scatter. The mask is counted and used from
 * scratch memory, so that the size and the writes agree. */
#include <inttypes.h>
#include <string.h>

#include "kernels/index/index.h"

/* Writes the positions of up to `most` ones of the mask. The last dimension is the inner loop,
 * without a branch on the mask: a position is overwritten unless the mask has it. Eight zeros are
 * skipped at once. */
static void write_positions(const ec_tensor *out, const uint8_t *mask, size_t rank,
                            const int64_t *sizes, int64_t most) {
  int64_t position[EC_MAX_RANK] = {0}, numel, row = 0;
  if (rank == 0 || !ec_numel(sizes, rank, &numel)) return;
  int64_t *at = out->data, by_row = out->strides[0], by_column = out->strides[1];
  int64_t inner = sizes[rank - 1];
  for (int64_t i = 0; i < numel; i += inner) {
    for (int64_t j = 0; j < inner && row < most; j++) {
      static const uint8_t none[8] = {0};
      if (j % 8 == 0 && j + 8 <= inner && memcmp(mask + i + j, none, 8) == 0) {
        j += 7;
        continue;
      }
      int64_t *to = at + row * by_row;
      for (size_t d = 0; d + 1 < rank; d++, to += by_column) *to = position[d];
      *to = j;
      row += mask[i + j];
    }
    if (row == most) return;
    for (size_t d = rank - 1; d-- > 0;) {
      if (++position[d] < sizes[d]) break;
      position[d] = 0;
    }
  }
}

ec_status ec_op_nonzero_out(ec_call *c) {
  const ec_tensor in = *ec_arg_tensor(c, 0);
  uint8_t *mask;
  int64_t count;
  EC_TRY(ec_call_check_dtype(c, 1, EC_BIT(EC_INT64)));
  EC_TRY(ec_index_mask(c, &in, in.rank, in.sizes, &mask, &count));
  int64_t sizes[2] = {count, in.rank};
  EC_TRY(ec_call_resize(c, 1, 2, sizes));
  if (count) write_positions(ec_arg_tensor(c, 1), mask, in.rank, in.sizes, count);
  return EC_OK;
}

ec_status ec_op_nonzero_static_out(ec_call *c) {
  const ec_tensor in = *ec_arg_tensor(c, 0);
  int64_t size = ec_arg_int(c, 1), fill = ec_arg_int(c, 2), sizes[2] = {size, in.rank}, count;
  ec_tensor *out = ec_arg_tensor(c, 3);
  uint8_t *mask;
  EC_TRY(ec_call_check_dtype(c, 3, EC_BIT(EC_INT64)));
  if (size < 0) return ec_call_fail(c, 1, "%" PRId64 ", expected at least 0", size);
  EC_TRY(ec_index_mask(c, &in, in.rank, in.sizes, &mask, &count));
  EC_TRY(ec_call_resize(c, 3, 2, sizes));
  count = count < size ? count : size;
  if (count) write_positions(out, mask, in.rank, in.sizes, count);
  ec_view rest = ec_view_of(out), one = {.data = (char *)&fill, .dtype = EC_INT64};
  rest.sizes[0] = size - count;
  if (rest.sizes[0] && in.rank) rest.data += (size_t)(count * rest.strides[0]) * sizeof fill;
  ec_copy_view(c, &rest, &one);
  return EC_OK;
}

/* Computes the common broadcast shape of self and a bool mask. */
static ec_status common_shape(ec_call *c, size_t *rank, int64_t *sizes) {
  *rank = 0;
  EC_TRY(ec_call_check_dtype(c, 1, EC_BIT(EC_BOOL)));
  EC_TRY(ec_call_broadcast(c, 0, ec_arg_tensor(c, 0), rank, sizes));
  return ec_call_broadcast(c, 1, ec_arg_tensor(c, 1), rank, sizes);
}

/* Starts an iteration in row-major order over a packed mask and a tensor of the same or fewer
 * sizes. */
static bool start_masked(ec_iter *it, uint8_t *mask, size_t rank, const int64_t *sizes,
                         const ec_tensor *t) {
  int64_t strides[EC_MAX_RANK];
  uint8_t row_major[EC_MAX_RANK];
  for (size_t d = 0; d < rank; d++) row_major[d] = (uint8_t)d;
  ec_strides(sizes, row_major, rank, strides);
  ec_iter_init(it, rank, sizes);
  ec_iter_add(it, mask, 1, rank, sizes, strides);
  ec_iter_tensor(it, t);
  return ec_iter_start(it);
}

ec_status ec_op_masked_select_out(ec_call *c) {
  ec_tensor self = *ec_arg_tensor(c, 0), *out = ec_arg_tensor(c, 2);
  int64_t sizes[EC_MAX_RANK], count;
  size_t rank, item = ec_dtype_size(ec_tensor_dtype(&self));
  uint8_t *mask;
  ec_iter it;
  EC_TRY(common_shape(c, &rank, sizes));
  EC_TRY(ec_call_check_dtype(c, 2, EC_BIT(self.dtype)));
  EC_TRY(ec_index_mask(c, ec_arg_tensor(c, 1), rank, sizes, &mask, &count));
  EC_TRY(ec_call_resize(c, 2, 1, &count));
  self.data = ec_arg_tensor(c, 0)->data;
  char *to = out->data;
  for (bool more = start_masked(&it, mask, rank, sizes, &self); more; more = ec_iter_next(&it)) {
    const int64_t n = ec_mask_pack(item, it.count, (const uint8_t *)it.at[0], to, count, it.at[1],
                                   it.step[1]);
    to += n * (int64_t)item;
    count -= n;
  }
  return EC_OK;
}

ec_status ec_op_masked_scatter_out(ec_call *c) {
  ec_tensor self = *ec_arg_tensor(c, 0), source = *ec_arg_tensor(c, 2), *out = ec_arg_tensor(c, 3);
  int64_t sizes[EC_MAX_RANK], count;
  size_t rank, item = ec_dtype_size(ec_tensor_dtype(&self));
  char *from;
  void *packed;
  uint8_t *mask;
  ec_iter it;
  EC_TRY(common_shape(c, &rank, sizes));
  EC_TRY(ec_call_check_dtype(c, 2, EC_BIT(self.dtype)));
  EC_TRY(ec_call_check_dtype(c, 3, EC_BIT(self.dtype)));
  EC_TRY(ec_index_mask(c, ec_arg_tensor(c, 1), rank, sizes, &mask, &count));
  if (count > source.numel)
    return ec_call_fail(c, 2, "%" PRId64 " elements for %" PRId64 " places", source.numel, count);
  EC_TRY(ec_call_resize(c, 3, rank, sizes));
  self.data = ec_arg_tensor(c, 0)->data;
  source.data = ec_arg_tensor(c, 2)->data;
  EC_TRY(ec_call_packed(c, &source, ec_tensor_dtype(&source), &packed));
  from = packed;
  ec_copy_cast(c, out, &self);
  for (bool more = start_masked(&it, mask, rank, sizes, out); more; more = ec_iter_next(&it)) {
    const int64_t n = ec_mask_unpack(item, it.count, (const uint8_t *)it.at[0], from, count,
                                     it.at[1], it.step[1]);
    from += n * (int64_t)item;
    count -= n;
  }
  return EC_OK;
}
