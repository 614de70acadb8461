/* Parts of a tensor: slice, select, narrow, split, unbind, diagonal, as_strided, unfold. */
#include <inttypes.h>

#include "core/checked.h"
#include "kernels/view/region.h"

ec_status ec_op_slice_copy_Tensor_out(ec_call *c) {
  ec_region r = ec_region_of(ec_arg_tensor(c, 0));
  int64_t start = ec_arg_opt_int(c, 2, 0), end = ec_arg_opt_int(c, 3, INT64_MAX), length;
  int64_t step = ec_arg_int(c, 4);
  size_t dim;
  EC_TRY(ec_check_has_dims(c, 0));
  EC_TRY(ec_call_wrap_dim(c, ec_arg_int(c, 1), r.rank, &dim));
  if (step <= 0) return ec_call_fail(c, 4, "%" PRId64 ", expected a positive step", step);
  ec_slice_bounds(r.sizes[dim], &start, end, step, &length);
  ec_region_slice(&r, dim, start, length, step);
  return ec_region_to_out(c, &r, 5);
}

ec_status ec_op_select_copy_int_out(ec_call *c) {
  ec_region r = ec_region_of(ec_arg_tensor(c, 0));
  size_t dim;
  EC_TRY(ec_check_has_dims(c, 0));
  EC_TRY(ec_call_wrap_dim(c, ec_arg_int(c, 1), r.rank, &dim));
  EC_TRY(ec_region_select_arg(c, 2, &r, dim));
  return ec_region_to_out(c, &r, 3);
}

ec_status ec_op_narrow_copy_out(ec_call *c) {
  ec_region r = ec_region_of(ec_arg_tensor(c, 0));
  int64_t start = ec_arg_int(c, 2), length = ec_arg_int(c, 3);
  size_t dim;
  EC_TRY(ec_check_has_dims(c, 0));
  EC_TRY(ec_call_wrap_dim(c, ec_arg_int(c, 1), r.rank, &dim));
  int64_t size = r.sizes[dim];
  if (start < -size || start > size)
    return ec_call_fail(c, 2, "%" PRId64 " is out of range for dimension %zu of size %" PRId64,
                        start, dim, size);
  if (start < 0) start += size;
  if (length < 0 || length > size - start)
    return ec_call_fail(c, 3,
                        "%" PRId64 " elements from %" PRId64 " on, dimension %zu has %" PRId64,
                        length, start, dim, size);
  ec_region_slice(&r, dim, start, length, 1);
  return ec_region_to_out(c, &r, 4);
}

static ec_status check_items(ec_call *c, size_t out, size_t expected) {
  size_t actual = ec_arg_tensors(c, out).n;
  if (actual == expected) return EC_OK;
  return ec_call_fail(c, out, "%zu tensors, expected %zu", actual, expected);
}

ec_status ec_op_split_copy_Tensor_out(ec_call *c) {
  ec_region r = ec_region_of(ec_arg_tensor(c, 0));
  int64_t part = ec_arg_int(c, 1);
  size_t dim;
  EC_TRY(ec_check_has_dims(c, 0));
  EC_TRY(ec_call_wrap_dim(c, ec_arg_int(c, 2), r.rank, &dim));
  int64_t size = r.sizes[dim];
  if (part < 0 || (part == 0 && size != 0))
    return ec_call_fail(c, 1, "parts of %" PRId64 " elements, the dimension has %" PRId64, part,
                        size);
  int64_t n = size == 0 ? 1 : (size - 1) / part + 1;
  EC_TRY(check_items(c, 3, (size_t)n));
  for (int64_t i = 0; i < n; i++) {
    ec_region item = r;
    int64_t start = i * part;
    ec_region_slice(&item, dim, start, ec_min_i64(part, size - start), 1);
    EC_TRY(ec_region_to_item(c, &item, 3, (size_t)i));
  }
  return EC_OK;
}

ec_status ec_op_split_with_sizes_copy_out(ec_call *c) {
  ec_region r = ec_region_of(ec_arg_tensor(c, 0));
  ec_ints parts;
  size_t dim;
  EC_TRY(ec_check_has_dims(c, 0));
  EC_TRY(ec_call_wrap_dim(c, ec_arg_int(c, 2), r.rank, &dim));
  EC_TRY(ec_arg_ints(c, 1, &parts));
  int64_t left = r.sizes[dim];
  for (size_t i = 0; i < parts.n; i++) {
    if (parts.v[i] < 0 || parts.v[i] > left)
      return ec_call_fail(c, 1, "part %zu has %" PRId64 " elements, %" PRId64 " are left", i,
                          parts.v[i], left);
    left -= parts.v[i];
  }
  if (left)
    return ec_call_fail(c, 1, "the parts leave %" PRId64 " of the %" PRId64 " elements", left,
                        r.sizes[dim]);
  EC_TRY(check_items(c, 3, parts.n));
  int64_t start = 0;
  for (size_t i = 0; i < parts.n; i++) {
    ec_region item = r;
    ec_region_slice(&item, dim, start, parts.v[i], 1);
    EC_TRY(ec_region_to_item(c, &item, 3, i));
    start += parts.v[i];
  }
  return EC_OK;
}

ec_status ec_op_unbind_copy_int_out(ec_call *c) {
  ec_region r = ec_region_of(ec_arg_tensor(c, 0));
  size_t dim;
  EC_TRY(ec_check_has_dims(c, 0));
  EC_TRY(ec_call_wrap_dim(c, ec_arg_int(c, 1), r.rank, &dim));
  EC_TRY(check_items(c, 2, (size_t)r.sizes[dim]));
  for (int64_t i = 0; i < r.sizes[dim]; i++) {
    ec_region item = r;
    ec_region_select(&item, dim, i);
    EC_TRY(ec_region_to_item(c, &item, 2, (size_t)i));
  }
  return EC_OK;
}

ec_status ec_region_diagonal(ec_call *c, size_t arg, ec_region *r) {
  int64_t offset = ec_arg_int(c, arg);
  size_t a, b;
  EC_TRY(ec_check_has_dims(c, 0));
  EC_TRY(ec_call_wrap_dim(c, ec_arg_int(c, arg + 1), r->rank, &a));
  EC_TRY(ec_call_wrap_dim(c, ec_arg_int(c, arg + 2), r->rank, &b));
  if (a == b) return ec_call_fail(c, arg + 2, "dimension %zu twice, expected two dimensions", a);
  int64_t rows = r->sizes[a], columns = r->sizes[b], length = 0;
  if (offset >= 0 && offset < columns) length = ec_min_i64(rows, columns - offset);
  if (offset < 0 && offset > -rows) length = ec_min_i64(rows + offset, columns);
  int64_t stride = length ? r->strides[a] + r->strides[b] : 0;
  if (length) r->offset = offset < 0 ? -offset * r->strides[a] : offset * r->strides[b];
  ec_region_select(r, a > b ? a : b, 0);
  ec_region_select(r, a > b ? b : a, 0);
  ec_region_insert(r, r->rank, length, stride);
  return EC_OK;
}

ec_status ec_op_diagonal_copy_out(ec_call *c) {
  ec_region r = ec_region_of(ec_arg_tensor(c, 0));
  EC_TRY(ec_region_diagonal(c, 1, &r));
  return ec_region_to_out(c, &r, 4);
}

ec_status ec_region_strided(ec_call *c, size_t arg, ec_region *r) {
  const ec_tensor *self = ec_arg_tensor(c, 0);
  ec_ints sizes, strides;
  *r = (ec_region){.offset = ec_arg_opt_int(c, arg + 2, 0)};
  EC_TRY(ec_arg_ints(c, arg, &sizes));
  EC_TRY(ec_arg_ints(c, arg + 1, &strides));
  if (sizes.n != strides.n || sizes.n > EC_MAX_RANK)
    return ec_call_fail(c, arg + 1, "%zu strides for %zu sizes", strides.n, sizes.n);
  if (r->offset < 0)
    return ec_call_fail(c, arg + 2, "%" PRId64 ", expected at least 0", r->offset);
  int64_t last = r->offset, span;
  bool empty = false, inside = true;
  for (size_t d = 0; d < sizes.n; d++) {
    r->sizes[d] = sizes.v[d];
    r->strides[d] = strides.v[d];
    if (sizes.v[d] < 0 || strides.v[d] < 0)
      return ec_call_fail(c, sizes.v[d] < 0 ? arg : arg + 1, "%" PRId64 ", expected at least 0",
                          sizes.v[d] < 0 ? sizes.v[d] : strides.v[d]);
    empty |= sizes.v[d] == 0;
    inside = inside && (sizes.v[d] == 0 || (ec_mul_i64(sizes.v[d] - 1, strides.v[d], &span) &&
                                            ec_add_i64(last, span, &last)));
  }
  if (!empty && (!inside || last >= self->numel))
    return ec_call_fail(c, 0, "sizes and strides exceed its %" PRId64 " elements",
                        self->numel);
  r->rank = sizes.n;
  return EC_OK;
}

ec_status ec_op_as_strided_copy_out(ec_call *c) {
  ec_region r;
  EC_TRY(ec_region_strided(c, 1, &r));
  return ec_region_to_out(c, &r, 4);
}

ec_status ec_op_unfold_copy_out(ec_call *c) {
  ec_region r = ec_region_of(ec_arg_tensor(c, 0));
  int64_t size = ec_arg_int(c, 2), step = ec_arg_int(c, 3);
  size_t dim;
  EC_TRY(ec_call_wrap_dim(c, ec_arg_int(c, 1), r.rank, &dim));
  int64_t have = r.rank ? r.sizes[dim] : 1;
  if (size < 0 || size > have)
    return ec_call_fail(c, 2, "windows of %" PRId64 " elements, the dimension has %" PRId64, size,
                        have);
  if (step <= 0) return ec_call_fail(c, 3, "%" PRId64 ", expected a positive step", step);
  if (r.rank == EC_MAX_RANK)
    return ec_call_fail(c, 0, "the result has more than %d dimensions", EC_MAX_RANK);
  int64_t stride = r.rank ? r.strides[dim] : 1;
  if (r.rank) ec_region_slice(&r, dim, 0, (have - size) / step + 1, step);
  ec_region_insert(&r, r.rank, size, stride);
  return ec_region_to_out(c, &r, 4);
}
