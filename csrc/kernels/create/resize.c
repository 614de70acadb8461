/* Operators that only set sizes, and resize, which keeps the elements that fit. Elements that eager
 * PyTorch leaves uninitialised are zeros: outputs may be the caller's memory. */
#include <inttypes.h>
#include <string.h>

#include "core/checked.h"
#include "kernels/copy.h"

/* ---- empty tensors ----------------------------------------------------------------------- */

static ec_status make_zeros(ec_call *c, size_t o, ec_ints sizes) {
  EC_TRY(ec_call_resize(c, o, sizes.n, sizes.v));
  const ec_tensor *out = ec_arg_tensor(c, o);
  if (out->numel) memset(out->data, 0, ec_tensor_nbytes(out));
  return EC_OK;
}

/* Checks only that torch accepts the layout. As in copies, the output's own dim order decides the
 * placement of elements. */
ec_status ec_op_empty_permuted_out(ec_call *c) {
  ec_ints sizes, order;
  uint32_t seen = 0;
  EC_TRY(ec_arg_ints(c, 0, &sizes));
  EC_TRY(ec_arg_ints(c, 1, &order));
  if (order.n != sizes.n || order.n > EC_MAX_RANK)
    return ec_call_fail(c, 1, "%zu dimensions, expected %zu", order.n, sizes.n);
  for (size_t i = 0; i < order.n; i++) {
    if (order.v[i] < 0 || order.v[i] >= (int64_t)order.n || (seen & 1u << order.v[i]))
      return ec_call_fail(c, 1, "%" PRId64 " at position %zu: not a permutation", order.v[i], i);
    seen |= 1u << order.v[i];
  }
  return make_zeros(c, 2, sizes);
}

static ec_status empty_strided(ec_call *c, size_t i, size_t o) {
  ec_ints sizes, strides;
  EC_TRY(ec_arg_ints(c, i, &sizes));
  EC_TRY(ec_arg_ints(c, i + 1, &strides));
  if (strides.n != sizes.n)
    return ec_call_fail(c, i + 1, "%zu dimensions, expected %zu", strides.n, sizes.n);
  for (size_t d = 0; d < strides.n; d++)
    if (strides.v[d] < 0)
      return ec_call_fail(c, i + 1, "%" PRId64 " for dimension %zu is negative", strides.v[d], d);
  return make_zeros(c, o, sizes);
}

ec_status ec_op_empty_strided_out(ec_call *c) { return empty_strided(c, 0, 2); }
ec_status ec_op_new_empty_strided_out(ec_call *c) { return empty_strided(c, 1, 3); }

/* ---- resize ------------------------------------------------------------------------------ */

enum { CONTIGUOUS = 0, CHANNELS_LAST = 2, CHANNELS_LAST_3D = 3 };

/* Computes the strides of `sizes` in one of torch's memory formats. */
static ec_status format_strides(ec_call *c, size_t arg, ec_ints sizes, int64_t *strides) {
  const int64_t format = ec_arg_opt_int(c, arg, CONTIGUOUS);
  const size_t rank = format == CHANNELS_LAST ? 4 : format == CHANNELS_LAST_3D ? 5 : sizes.n;
  uint8_t order[EC_MAX_RANK];
  if (format != CONTIGUOUS && format != CHANNELS_LAST && format != CHANNELS_LAST_3D)
    return ec_call_fail(c, arg, "memory format %" PRId64 " is not supported", format);
  if (rank != sizes.n || rank > EC_MAX_RANK)
    return ec_call_fail(c, arg, "%zu dimensions do not fit", sizes.n);
  for (size_t i = 0; i < EC_MAX_RANK; i++) order[i] = (uint8_t)i;
  if (format != CONTIGUOUS) {
    for (size_t i = 1; i + 1 < rank; i++) order[i] = (uint8_t)(i + 1);
    order[rank - 1] = 1;
  }
  ec_strides(sizes.v, order, rank, strides);
  return EC_OK;
}

/* Resizes the output to self's elements in memory order, followed by zeros. In place the elements
 * are saved first, because the output's dim order stays. */
static ec_status resize_output(ec_call *c, size_t o) {
  const ec_tensor *self = ec_arg_tensor(c, 0);
  ec_tensor *out = ec_arg_tensor(c, o);
  const size_t item = ec_dtype_size(ec_tensor_dtype(self));
  const int64_t fit = self->numel;
  ec_view kept = {.dtype = ec_tensor_dtype(self), .data = self->data};
  int64_t numel;
  ec_ints sizes;
  EC_TRY(ec_arg_ints(c, 1, &sizes));
  EC_TRY(ec_call_check_same_dtype(c, o, 0));
  const bool same =
      sizes.n == self->rank && memcmp(sizes.v, self->sizes, sizes.n * sizeof *sizes.v) == 0;
  if (same && ec_arg_is_none(c, 2)) { /* no new layout */
    EC_TRY(ec_call_resize(c, o, sizes.n, sizes.v));
    if (out != self) ec_copy_cast(c, out, self);
    return EC_OK;
  }
  if (!ec_numel(sizes.v, sizes.n, &numel)) return ec_call_fail(c, 1, "impossible sizes");
  EC_TRY(format_strides(c, 2, sizes, kept.strides));
  if (out == self || numel > fit) {
    EC_TRY(ec_call_scratch(c, (size_t)numel, item, &kept.data));
    if (numel && fit) memcpy(kept.data, self->data, (size_t)ec_min_i64(fit, numel) * item);
  }
  EC_TRY(ec_call_resize(c, o, sizes.n, sizes.v));
  kept.rank = sizes.n;
  memcpy(kept.sizes, out->sizes, sizeof kept.sizes);
  const ec_view to = ec_view_of(out);
  if (numel) ec_copy_view(c, &to, &kept);
  return EC_OK;
}

ec_status ec_op_resize_out(ec_call *c) { return resize_output(c, 3); }
ec_status ec_op_resize_(ec_call *c) { return resize_output(c, 0); }
