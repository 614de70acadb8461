/* The same elements with another shape: view, expand, squeeze, unsqueeze, permute, transpose. */
#include <inttypes.h>
#include <string.h>

#include "core/checked.h"
#include "kernels/view/region.h"

/* Moves dimension dims[i] of the region to position i. */
static void reorder_dims(ec_region *r, const size_t *dims) {
  ec_region old = *r;
  for (size_t i = 0; i < r->rank; i++) {
    r->sizes[i] = old.sizes[dims[i]];
    r->strides[i] = old.strides[dims[i]];
  }
}

ec_status ec_op_permute_copy_out(ec_call *c) {
  ec_region r = ec_region_of(ec_arg_tensor(c, 0));
  size_t dims[EC_MAX_RANK];
  unsigned seen = 0;
  ec_ints order;
  EC_TRY(ec_arg_ints(c, 1, &order));
  if (order.n != r.rank)
    return ec_call_fail(c, 1, "%zu dimensions, expected %zu", order.n, r.rank);
  for (size_t i = 0; i < r.rank; i++) {
    EC_TRY(ec_call_wrap_dim(c, order.v[i], r.rank, &dims[i]));
    if (seen >> dims[i] & 1u)
      return ec_call_fail(c, 1, "dimension %zu appears more than once", dims[i]);
    seen |= 1u << dims[i];
  }
  reorder_dims(&r, dims);
  return ec_region_to_out(c, &r, 2);
}

static ec_status transpose_dims(ec_call *c, int64_t dim0, int64_t dim1, size_t out) {
  ec_region r = ec_region_of(ec_arg_tensor(c, 0));
  size_t dims[EC_MAX_RANK], a, b;
  EC_TRY(ec_call_wrap_dim(c, dim0, r.rank, &a));
  EC_TRY(ec_call_wrap_dim(c, dim1, r.rank, &b));
  for (size_t i = 0; i < r.rank; i++) dims[i] = i == a ? b : i == b ? a : i;
  reorder_dims(&r, dims);
  return ec_region_to_out(c, &r, out);
}

ec_status ec_op_transpose_copy_int_out(ec_call *c) {
  return transpose_dims(c, ec_arg_int(c, 1), ec_arg_int(c, 2), 3);
}

ec_status ec_op_t_copy_out(ec_call *c) {
  size_t rank = ec_arg_tensor(c, 0)->rank;
  if (rank > 2) return ec_call_fail(c, 0, "%zu dimensions, expected at most 2", rank);
  return transpose_dims(c, 0, rank == 2 ? 1 : 0, 1);
}

/* Computes the shape of view_copy, with -1 replaced. */
static ec_status viewed_sizes(ec_call *c, int64_t numel, ec_ints sizes, int64_t *out) {
  char text[EC_SHAPE_TEXT];
  size_t free_dim = SIZE_MAX;
  int64_t known;
  if (sizes.n > EC_MAX_RANK)
    return ec_call_fail(c, 1, "%zu dimensions, at most %d are supported", sizes.n, EC_MAX_RANK);
  for (size_t d = 0; d < sizes.n; d++) {
    out[d] = sizes.v[d];
    if (out[d] != -1) continue;
    if (free_dim != SIZE_MAX) return ec_call_fail(c, 1, "more than one size is -1");
    free_dim = d;
    out[d] = 1;
  }
  bool fits = ec_numel(out, sizes.n, &known);
  if (fits && free_dim != SIZE_MAX && known == 0)
    return ec_call_fail(c, 1, "-1 is ambiguous with a size of 0");
  if (fits && free_dim != SIZE_MAX) {
    out[free_dim] = numel / known;
    fits = numel % known == 0;
  } else {
    fits = fits && known == numel;
  }
  if (fits) return EC_OK;
  return ec_call_fail(c, 1, "shape %s does not have the tensor's %" PRId64 " elements",
                      ec_shape_text(sizes.v, sizes.n, text, sizeof text), numel);
}

static void contiguous_strides(ec_region *r) {
  int64_t stride = 1;
  for (size_t d = r->rank; d-- > 0;) {
    r->strides[d] = stride;
    if (r->sizes[d]) stride *= r->sizes[d];
  }
}

/* A view keeps the row-major order. If neither side has it, the elements go through scratch memory
 * that does. */
ec_status ec_op_view_copy_out(ec_call *c) {
  const ec_tensor *self = ec_arg_tensor(c, 0);
  ec_region from = ec_region_of(self), to = {0};
  bool self_row_major = ec_tensor_is_contiguous(self);
  int64_t numel = self->numel;
  ec_ints sizes;
  EC_TRY(ec_arg_ints(c, 1, &sizes));
  to.rank = sizes.n;
  EC_TRY(viewed_sizes(c, numel, sizes, to.sizes));
  contiguous_strides(&to);
  if (self_row_major) return ec_region_to_out(c, &to, 2);
  ec_tensor *out = ec_arg_tensor(c, 2);
  EC_TRY(ec_call_check_dtype(c, 2, EC_BIT(self->dtype)));
  EC_TRY(ec_call_resize(c, 2, to.rank, to.sizes));
  ec_tensor middle = *out;
  ec_region row_major = from;
  contiguous_strides(&row_major);
  bool direct = ec_tensor_is_contiguous(out);
  if (!direct)
    EC_TRY(ec_call_scratch(c, (size_t)numel, ec_dtype_size(ec_tensor_dtype(out)), &middle.data));
  ec_view dst = ec_region_view(&row_major, &middle), src = ec_region_view(&from, self);
  if (direct) {
    ec_copy_to_out(c, &dst, &src);
    return EC_OK;
  }
  ec_copy_view(c, &dst, &src);
  dst = ec_view_of(out);
  src = ec_region_view(&to, &middle);
  ec_copy_view(c, &dst, &src);
  return EC_OK;
}

ec_status ec_op_expand_copy_out(ec_call *c) {
  ec_region self = ec_region_of(ec_arg_tensor(c, 0)), r = {0};
  char from[EC_SHAPE_TEXT], to[EC_SHAPE_TEXT];
  ec_ints sizes;
  EC_TRY(ec_arg_ints(c, 1, &sizes));
  if (sizes.n < self.rank || sizes.n > EC_MAX_RANK)
    return ec_call_fail(c, 1, "%zu dimensions, expected %zu to %d", sizes.n, self.rank,
                        EC_MAX_RANK);
  r.rank = sizes.n;
  for (size_t d = 0, added = sizes.n - self.rank; d < r.rank; d++) {
    int64_t old = d < added ? 1 : self.sizes[d - added];
    bool keep = sizes.v[d] == -1 && d >= added;
    r.sizes[d] = keep ? old : sizes.v[d];
    if (r.sizes[d] < 0 || (r.sizes[d] != old && old != 1))
      return ec_call_fail(c, 1, "%s is not an expansion of %s",
                          ec_shape_text(sizes.v, sizes.n, to, sizeof to),
                          ec_shape_text(self.sizes, self.rank, from, sizeof from));
    r.strides[d] = old == 1 ? 0 : self.strides[d - added];
  }
  return ec_region_to_out(c, &r, 3);
}

ec_status ec_op_unsqueeze_copy_out(ec_call *c) {
  ec_region r = ec_region_of(ec_arg_tensor(c, 0));
  size_t dim;
  EC_TRY(ec_call_wrap_dim(c, ec_arg_int(c, 1), r.rank + 1, &dim));
  if (r.rank == EC_MAX_RANK)
    return ec_call_fail(c, 0, "the result has more than %d dimensions", EC_MAX_RANK);
  ec_region_insert(&r, dim, 1, 0);
  return ec_region_to_out(c, &r, 2);
}

static ec_status squeeze_dims(ec_call *c, ec_ints dims) {
  ec_region r = ec_region_of(ec_arg_tensor(c, 0));
  unsigned wanted = 0;
  for (size_t i = 0; i < dims.n; i++) {
    size_t d;
    EC_TRY(ec_call_wrap_dim(c, dims.v[i], r.rank, &d));
    if (wanted >> d & 1u) return ec_call_fail(c, 1, "dimension %zu appears more than once", d);
    wanted |= 1u << d;
  }
  for (size_t d = r.rank; d-- > 0;)
    if ((wanted >> d & 1u) && r.sizes[d] == 1) ec_region_select(&r, d, 0);
  return ec_region_to_out(c, &r, 2);
}

ec_status ec_op_squeeze_copy_dim_out(ec_call *c) {
  int64_t dim = ec_arg_int(c, 1);
  return squeeze_dims(c, (ec_ints){&dim, 1});
}

ec_status ec_op_squeeze_copy_dims_out(ec_call *c) {
  ec_ints dims;
  EC_TRY(ec_arg_ints(c, 1, &dims));
  return squeeze_dims(c, dims);
}
