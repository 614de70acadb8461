/* Index tensors and masks, copied and checked. */
#include <inttypes.h>
#include <string.h>

#include "core/checked.h"
#include "kernels/index/index.h"

ec_status ec_index_check(ec_call *c, size_t arg, int64_t *index, int64_t n, size_t dim,
                         int64_t size, bool wrap) {
  int64_t lowest = wrap ? -size : 0;
  for (int64_t i = 0; i < n; i++) {
    int64_t at = index[i];
    if (at < lowest || at >= size)
      return ec_call_fail(c, arg,
                          "index %" PRId64 " is out of range for dimension %zu of size %" PRId64,
                          at, dim, size);
    index[i] = at < 0 ? at + size : at;
  }
  return EC_OK;
}

ec_status ec_index_copy(ec_call *c, size_t arg, const ec_tensor *t, int64_t **out) {
  ec_dtype dtype = ec_tensor_dtype(t);
  if (dtype != EC_INT64 && dtype != EC_INT32)
    return ec_call_fail(c, arg, "indices of dtype %s, expected int64 or int32",
                        ec_dtype_name(dtype));
  return ec_index_numbers(c, t, out);
}

ec_status ec_index_numbers(ec_call *c, const ec_tensor *t, int64_t **out) {
  EC_TRY(ec_call_scratch(c, (size_t)t->numel, sizeof **out, out));
  ec_view from = ec_view_of(t), to = from;
  uint8_t row_major[EC_MAX_RANK];
  for (size_t d = 0; d < t->rank; d++) row_major[d] = (uint8_t)d;
  ec_strides(t->sizes, row_major, t->rank, to.strides);
  to.data = (char *)*out;
  to.dtype = EC_INT64;
  ec_copy_view(c, &to, &from);
  return EC_OK;
}

ec_status ec_index_read(ec_call *c, size_t arg, const ec_tensor *t, size_t dim, int64_t size,
                        bool wrap, int64_t **out) {
  int64_t n = t->numel;
  EC_TRY(ec_index_copy(c, arg, t, out));
  return ec_index_check(c, arg, *out, n, dim, size, wrap);
}

ec_status ec_index_mask(ec_call *c, const ec_tensor *t, size_t rank, const int64_t *sizes,
                        uint8_t **mask, int64_t *count) {
  int64_t numel = 0, n = 0;
  uint8_t row_major[EC_MAX_RANK];
  if (!ec_numel(sizes, rank, &numel))
    return ec_fail(c->err, EC_INVALID_ARGUMENT, "the mask's shape overflows");
  EC_TRY(ec_call_scratch(c, (size_t)numel, 1, mask));
  ec_view from = ec_view_of(t), to = {.data = (char *)*mask, .dtype = EC_BOOL, .rank = rank};
  for (size_t d = 0; d < rank; d++) row_major[d] = (uint8_t)d;
  memcpy(to.sizes, sizes, rank * sizeof *sizes);
  ec_strides(sizes, row_major, rank, to.strides);
  ec_copy_view(c, &to, &from);
  uint8_t *m = *mask;
  for (int64_t i = 0; i < numel; i++) {
    m[i] = m[i] != 0; /* bools of a hostile file may be any byte */
    n += m[i];
  }
  *count = n;
  return EC_OK;
}

ec_status ec_index_offsets(ec_call *c, size_t rank, const int64_t *sizes, const int64_t *strides,
                           int64_t **offsets) {
  int64_t numel, done = 1;
  if (!ec_numel(sizes, rank, &numel))
    return ec_fail(c->err, EC_INVALID_ARGUMENT, "the shape of the indices overflows");
  EC_TRY(ec_call_scratch(c, (size_t)numel, sizeof **offsets, offsets));
  if (numel == 0) return EC_OK;
  int64_t *o = *offsets;
  for (size_t d = rank; d-- > 0;) { /* repeats the existing offsets, one stride further each time */
    for (int64_t k = done; k < done * sizes[d]; k++) o[k] = o[k - done] + strides[d];
    done *= sizes[d];
  }
  return EC_OK;
}
