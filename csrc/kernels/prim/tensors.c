/* Numbers from tensors, and the two executorch_prim operators on tensors: et_view, which points its
 * output to its input's memory, and et_copy_index, which fills one row of a loop's result. */
#include <inttypes.h>
#include <string.h>

#include "core/checked.h"
#include "core/half.h"
#include "kernels/copy.h"

ec_status ec_op_sym_size_int(ec_call *c) {
  const ec_tensor *self = ec_arg_tensor(c, 0);
  size_t dim;
  EC_TRY(ec_call_wrap_dim(c, ec_arg_int(c, 1), self->rank, &dim));
  if (dim >= self->rank) return ec_call_fail(c, 0, "has no dimensions");
  return ec_call_return(c, (ec_scalar){EC_KIND_INT, {.i = self->sizes[dim]}});
}

/* Returns a stride of the layout given by the dim order. */
ec_status ec_op_sym_stride_int(ec_call *c) {
  const ec_tensor *self = ec_arg_tensor(c, 0);
  size_t dim;
  EC_TRY(ec_call_wrap_dim(c, ec_arg_int(c, 1), self->rank, &dim));
  if (dim >= self->rank) return ec_call_fail(c, 0, "has no dimensions");
  return ec_call_return(c, (ec_scalar){EC_KIND_INT, {.i = self->strides[dim]}});
}

/* Returns 0: a tensor of a program starts at its data. */
ec_status ec_op_sym_storage_offset(ec_call *c) {
  return ec_call_return(c, (ec_scalar){EC_KIND_INT, {.i = 0}});
}

/* Returns true if strides are those of a memory format (dimensions of one element may have any). */
ec_status ec_op_sym_is_contiguous(ec_call *c) {
  const ec_tensor *self = ec_arg_tensor(c, 0);
  const int64_t format = ec_arg_int(c, 1);
  const bool channels_last = format == 2 || format == 3; /* of 4 and 5 dimensions; 1: preserve */
  bool fits = !channels_last || self->rank == (size_t)format + 2;
  int64_t stride = 1;
  if (format < 0 || format > 3)
    return ec_call_fail(c, 1, "unknown memory format %" PRId64, format);
  for (size_t i = 0; fits && i < self->rank; i++) {
    size_t d = self->rank - 1 - i;
    if (channels_last && d) d = i == 0 ? 1 : d + 1;
    if (self->sizes[d] == 1) continue;
    fits = self->strides[d] == stride;
    stride *= self->sizes[d];
  }
  if (!channels_last && self->numel == 0) fits = true;
  return ec_call_return(c, (ec_scalar){EC_KIND_BOOL, {.b = fits}});
}

ec_status ec_op_sym_numel(ec_call *c) {
  return ec_call_return(c, (ec_scalar){EC_KIND_INT, {.i = ec_arg_tensor(c, 0)->numel}});
}

ec_status ec_op_local_scalar_dense(ec_call *c) {
  const ec_tensor *self = ec_arg_tensor(c, 0);
  const ec_dtype dtype = ec_tensor_dtype(self);
  ec_scalar s = {.kind = EC_KIND_INT};
  EC_TRY(ec_call_check_dtype(c, 0, EC_SET_REALB));
  if (self->numel != 1)
    return ec_call_fail(c, 0, "%" PRId64 " elements, expected one", self->numel);
  if (dtype == EC_BOOL) {
    s.kind = EC_KIND_BOOL;
    s.as.b = *(const uint8_t *)self->data != 0;
  } else if (ec_is_floating(dtype)) {
    s.kind = EC_KIND_DOUBLE;
    ec_cast(EC_FLOAT64, dtype)(1, (char *)&s.as.d, 0, self->data, 0);
  } else {
    ec_cast(EC_INT64, dtype)(1, (char *)&s.as.i, 0, self->data, 0);
  }
  return ec_call_return(c, s);
}

/* ---- et_view ----------------------------------------------------------------------------- */

/* Computes the requested sizes, with a -1 replaced by the size that self's elements leave. */
static ec_status view_sizes(ec_call *c, const ec_tensor *self, ec_ints request,
                            int64_t sizes[EC_MAX_RANK]) {
  char text[EC_SHAPE_TEXT];
  size_t open = EC_MAX_RANK;
  int64_t known = 1, numel;
  if (request.n > EC_MAX_RANK)
    return ec_call_fail(c, 1, "%zu dimensions, at most %d are supported", request.n, EC_MAX_RANK);
  for (size_t d = 0; d < request.n; d++) {
    sizes[d] = request.v[d];
    if (sizes[d] == -1 && open == EC_MAX_RANK) open = d;
    else if (sizes[d] < 0 || !ec_mul_i64(known, sizes[d], &known))
      return ec_call_fail(c, 1, "impossible size %" PRId64 " of dimension %zu", sizes[d], d);
  }
  if (open < EC_MAX_RANK && known != 0) sizes[open] = self->numel / known;
  if (open < EC_MAX_RANK && known == 0)
    return ec_call_fail(c, 1, "-1 is ambiguous with a size of 0");
  if (!ec_numel(sizes, request.n, &numel) || numel != self->numel)
    return ec_call_fail(c, 1, "%s does not have self's %" PRId64 " elements",
                        ec_shape_text(request.v, request.n, text, sizeof text), self->numel);
  return EC_OK;
}

/* True if self's memory, read with out's strides, has the same elements in the same order. Each
 * contiguous run of self's dimensions must be split by whole dimensions of out. */
static bool is_view(const ec_tensor *self, const ec_tensor *out) {
  if (self->numel <= 1) return true;
  size_t o = out->rank;
  for (size_t d = self->rank; d > 0;) {
    int64_t run = self->sizes[d - 1], stride = self->strides[d - 1], seen = 1;
    for (d--; d > 0 && (self->sizes[d - 1] == 1 || self->strides[d - 1] == stride * run); d--)
      run *= self->sizes[d - 1];
    if (run == 1) continue;
    for (; o > 0 && (seen < run || out->sizes[o - 1] == 1); o--) {
      if (out->sizes[o - 1] != 1 && out->strides[o - 1] != stride * seen) return false;
      seen *= out->sizes[o - 1];
    }
    if (seen != run) return false;
  }
  return true;
}

ec_status ec_op_et_view(ec_call *c) {
  const ec_tensor *self = ec_arg_tensor(c, 0);
  ec_tensor *out = ec_arg_tensor(c, 2);
  int64_t sizes[EC_MAX_RANK];
  ec_ints request;
  EC_TRY(ec_arg_ints(c, 1, &request));
  EC_TRY(view_sizes(c, self, request, sizes));
  EC_TRY(ec_call_check_same_dtype(c, 2, 0));
  ec_status status = ec_tensor_set_sizes(out, request.n, sizes, c->err);
  if (status != EC_OK) return ec_fail_in(c->err, status, "argument 'out'");
  if (!is_view(self, out))
    return ec_call_fail(c, 2, "self's memory layout cannot be viewed with these sizes");
  out->data = self->data;
  out->capacity = self->capacity;
  out->flags = self->flags; /* a view of a constant is constant, too */
  return EC_OK;
}

/* ---- et_copy_index ----------------------------------------------------------------------- */

/* copy_to grows by one row with each step of its loop; in programs of ExecuTorch 1.0, which declare
 * it static, it has all rows from the beginning. */
ec_status ec_op_et_copy_index(ec_call *c) {
  ec_tensor *to = ec_arg_tensor(c, 0);
  const ec_tensor *from = ec_arg_tensor(c, 1);
  const int64_t index = ec_arg_int(c, 2);
  char whole[EC_SHAPE_TEXT], row[EC_SHAPE_TEXT];
  int64_t sizes[EC_MAX_RANK];
  EC_TRY(ec_call_check_same_dtype(c, 1, 0));
  if (to == from) return ec_call_fail(c, 1, "must not be copy_to itself");
  if (to->rank != from->rank + 1 ||
      memcmp(to->sizes + 1, from->sizes, from->rank * sizeof *from->sizes) != 0)
    return ec_call_fail(c, 1, "shape %s, expected a row of copy_to's %s",
                        ec_shape_text(from->sizes, from->rank, row, sizeof row),
                        ec_shape_text(to->sizes, to->rank, whole, sizeof whole));
  if (to->dim_order[0] != 0)
    return ec_call_fail(c, 0, "its first dimension is not outermost in memory");
  if (index < 0 || index == INT64_MAX)
    return ec_call_fail(c, 2, "%" PRId64 ", expected an index from 0", index);
  if (to->dynamism != EC_STATIC || index >= to->sizes[0]) {
    memcpy(sizes, to->sizes, to->rank * sizeof *sizes);
    sizes[0] = index + 1;
    EC_TRY(ec_call_resize(c, 0, to->rank, sizes));
  }
  ec_view dst = ec_view_of(to), src = ec_view_of(from);
  if (from->numel == 0) return EC_OK;
  dst.data += (size_t)(index * to->strides[0]) * ec_dtype_size(dst.dtype);
  dst.rank = from->rank;
  memmove(dst.sizes, dst.sizes + 1, from->rank * sizeof *dst.sizes);
  memmove(dst.strides, dst.strides + 1, from->rank * sizeof *dst.strides);
  ec_copy_view(c, &dst, &src);
  return EC_OK;
}
