/* Regions: narrowing them, and copies from and to them. */
#include "kernels/view/region.h"

#include <inttypes.h>
#include <string.h>

ec_region ec_region_of(const ec_tensor *t) {
  ec_region r = {.rank = t->rank};
  memcpy(r.sizes, t->sizes, t->rank * sizeof *r.sizes);
  memcpy(r.strides, t->strides, t->rank * sizeof *r.strides);
  return r;
}

static bool is_empty(const ec_region *r) {
  for (size_t d = 0; d < r->rank; d++)
    if (r->sizes[d] == 0) return true;
  return false;
}

void ec_region_slice(ec_region *r, size_t dim, int64_t start, int64_t length, int64_t step) {
  r->sizes[dim] = length;
  if (length > 0) r->offset += start * r->strides[dim];
  if (length > 1) r->strides[dim] *= step; /* within the dimension, so it cannot overflow */
}

void ec_region_select(ec_region *r, size_t dim, int64_t index) {
  r->offset += index * r->strides[dim];
  r->rank--;
  for (size_t d = dim; d < r->rank; d++) {
    r->sizes[d] = r->sizes[d + 1];
    r->strides[d] = r->strides[d + 1];
  }
}

void ec_region_insert(ec_region *r, size_t dim, int64_t size, int64_t stride) {
  for (size_t d = r->rank++; d > dim; d--) {
    r->sizes[d] = r->sizes[d - 1];
    r->strides[d] = r->strides[d - 1];
  }
  r->sizes[dim] = size;
  r->strides[dim] = stride;
}

ec_view ec_region_view(const ec_region *r, const ec_tensor *t) {
  ec_view v = {.data = t->data, .dtype = ec_tensor_dtype(t), .rank = r->rank};
  memcpy(v.sizes, r->sizes, r->rank * sizeof *v.sizes);
  memcpy(v.strides, r->strides, r->rank * sizeof *v.strides);
  if (!is_empty(r)) v.data += r->offset * (int64_t)ec_dtype_size(v.dtype);
  return v;
}

static void copy_to(ec_call *c, const ec_region *r, ec_tensor *out) {
  ec_view from = ec_region_view(r, ec_arg_tensor(c, 0)), to = ec_view_of(out);
  ec_copy_to_out(c, &to, &from);
}

ec_status ec_region_to_out(ec_call *c, const ec_region *r, size_t out) {
  EC_TRY(ec_call_check_dtype(c, out, EC_BIT(ec_arg_tensor(c, 0)->dtype)));
  EC_TRY(ec_call_resize(c, out, r->rank, r->sizes));
  copy_to(c, r, ec_arg_tensor(c, out));
  return EC_OK;
}

ec_status ec_region_to_item(ec_call *c, const ec_region *r, size_t out, size_t k) {
  ec_tensor *t = ec_list_tensor(ec_arg_tensors(c, out), k);
  ec_dtype dtype = ec_tensor_dtype(ec_arg_tensor(c, 0));
  if (!t) return ec_call_fail(c, out, "item %zu is None, expected a tensor", k);
  if (ec_tensor_dtype(t) != dtype)
    return ec_call_fail(c, out, "item %zu has dtype %s, expected %s", k,
                        ec_dtype_name(ec_tensor_dtype(t)), ec_dtype_name(dtype));
  ec_status status = ec_tensor_resize(t, r->rank, r->sizes, c->err);
  if (status != EC_OK)
    return ec_fail_in(c->err, status, "argument '%s', item %zu", c->op->args[out].name, k);
  copy_to(c, r, t);
  return EC_OK;
}

void ec_region_fill(const ec_call *c, const ec_region *r, const ec_tensor *t,
                    const void *element) {
  ec_view to = ec_region_view(r, t);
  ec_fill_view(c, &to, element);
}

static int64_t clamp_bound(int64_t bound, int64_t size) {
  if (bound < 0) bound = bound < -size ? 0 : bound + size;
  return bound < size ? bound : size;
}

void ec_slice_bounds(int64_t size, int64_t *start, int64_t end, int64_t step, int64_t *length) {
  *start = clamp_bound(*start, size);
  end = clamp_bound(end, size);
  *length = end > *start ? (end - *start - 1) / step + 1 : 0;
}

ec_status ec_region_select_arg(ec_call *c, size_t i, ec_region *r, size_t dim) {
  int64_t index = ec_arg_int(c, i), size = r->sizes[dim];
  if (index < -size || index >= size)
    return ec_call_fail(c, i, "%" PRId64 " is out of range for dimension %zu of size %" PRId64,
                        index, dim, size);
  ec_region_select(r, dim, index < 0 ? index + size : index);
  return EC_OK;
}

ec_status ec_check_has_dims(ec_call *c, size_t i) {
  if (ec_arg_tensor(c, i)->rank) return EC_OK;
  return ec_call_fail(c, i, "the tensor is 0-d, expected at least one dimension");
}
