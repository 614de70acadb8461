/* A copy of self with a part replaced: slice_scatter, select_scatter, constant_pad_nd, tril. */
#include <inttypes.h>
#include <string.h>

#include "core/checked.h"
#include "kernels/pointwise/elementwise.h"
#include "kernels/view/region.h"

/* Checks that argument 1 has the sizes of the part that it replaces. */
static ec_status check_part(ec_call *c, const ec_region *part) {
  ec_region inner = ec_region_of(ec_arg_tensor(c, 1));
  char actual[EC_SHAPE_TEXT], expected[EC_SHAPE_TEXT];
  bool same = inner.rank == part->rank &&
              memcmp(inner.sizes, part->sizes, inner.rank * sizeof *inner.sizes) == 0;
  if (same) return EC_OK;
  return ec_call_fail(c, 1, "shape %s, expected the shape of the part, %s",
                      ec_shape_text(inner.sizes, inner.rank, actual, sizeof actual),
                      ec_shape_text(part->sizes, part->rank, expected, sizeof expected));
}

/* Sets the output at `out` to self with `part` replaced by argument 1. */
static ec_status write_region(ec_call *c, const ec_region *part, size_t out) {
  const ec_tensor *src = ec_arg_tensor(c, 1);
  ec_region whole = ec_region_of(ec_arg_tensor(c, 0)), inner = ec_region_of(src);
  EC_TRY(check_part(c, part));
  EC_TRY(ec_region_to_out(c, &whole, out));
  ec_view to = ec_region_view(part, ec_arg_tensor(c, out)), from = ec_region_view(&inner, src);
  ec_copy_to_out(c, &to, &from);
  return EC_OK;
}

/* Returns self's region with the output's strides. */
static ec_region like_out(ec_call *c, size_t out) {
  const ec_tensor *self = ec_arg_tensor(c, 0), *o = ec_arg_tensor(c, out);
  ec_region r = ec_region_of(self);
  ec_strides(r.sizes, o->rank == r.rank ? o->dim_order : self->dim_order, r.rank, r.strides);
  return r;
}

ec_status ec_op_slice_scatter_out(ec_call *c) {
  int64_t start = ec_arg_opt_int(c, 3, 0), end = ec_arg_opt_int(c, 4, INT64_MAX), length;
  int64_t step = ec_arg_int(c, 5);
  ec_region r = like_out(c, 6);
  size_t dim;
  EC_TRY(ec_check_has_dims(c, 0));
  EC_TRY(ec_call_wrap_dim(c, ec_arg_int(c, 2), r.rank, &dim));
  if (step <= 0) return ec_call_fail(c, 5, "%" PRId64 ", expected a positive step", step);
  ec_slice_bounds(r.sizes[dim], &start, end, step, &length);
  ec_region_slice(&r, dim, start, length, step);
  return write_region(c, &r, 6);
}

ec_status ec_op_select_scatter_out(ec_call *c) {
  ec_region r = like_out(c, 4);
  size_t dim;
  EC_TRY(ec_check_has_dims(c, 0));
  EC_TRY(ec_call_wrap_dim(c, ec_arg_int(c, 2), r.rank, &dim));
  EC_TRY(ec_region_select_arg(c, 3, &r, dim));
  return write_region(c, &r, 4);
}

ec_status ec_op_diagonal_scatter_out(ec_call *c) {
  ec_region r = like_out(c, 5);
  EC_TRY(ec_region_diagonal(c, 2, &r));
  return write_region(c, &r, 5);
}

/* Addresses the part in self's memory; in scratch, if the output has another layout. */
ec_status ec_op_as_strided_scatter_out(ec_call *c) {
  const ec_tensor *self = ec_arg_tensor(c, 0), *src = ec_arg_tensor(c, 1);
  ec_tensor *out = ec_arg_tensor(c, 5), memory = *self;
  ec_region part;
  EC_TRY(ec_region_strided(c, 2, &part));
  EC_TRY(check_part(c, &part));
  EC_TRY(ec_call_check_dtype(c, 5, EC_BIT(self->dtype)));
  EC_TRY(ec_call_resize(c, 5, self->rank, self->sizes));
  bool apart = !ec_tensor_same_layout(self, out);
  memory.data = out->data;
  if (apart)
    EC_TRY(ec_call_scratch(c, (size_t)self->numel, ec_dtype_size(ec_tensor_dtype(self)),
                           &memory.data));
  ec_copy_cast(c, &memory, self);
  ec_view to = ec_region_view(&part, &memory), from = ec_view_of(src);
  ec_copy_view(c, &to, &from);
  if (apart) ec_copy_cast(c, out, &memory);
  return EC_OK;
}

/* Reads the padding by dimension: the size added in front, and the result's size. Negative padding
 * crops. */
static ec_status read_padding(ec_call *c, const ec_region *self, int64_t *front, int64_t *sizes) {
  ec_ints pad;
  EC_TRY(ec_arg_ints(c, 1, &pad));
  if (pad.n % 2 != 0 || pad.n / 2 > self->rank)
    return ec_call_fail(c, 1, "%zu numbers, expected pairs for at most %zu dimensions", pad.n,
                        self->rank);
  for (size_t d = 0; d < self->rank; d++) {
    size_t i = 2 * (self->rank - 1 - d); /* the last dimension comes first */
    int64_t before = i < pad.n ? pad.v[i] : 0, after = i < pad.n ? pad.v[i + 1] : 0;
    int64_t size = self->sizes[d];
    front[d] = before;
    bool fits = ec_add_i64(size, before, &size) && size >= 0 && ec_add_i64(size, after, &size) &&
                size >= 0;
    /* cropping is limited to existing elements, before anything is added */
    fits = fits && before >= -self->sizes[d] && after >= -self->sizes[d];
    if (!fits)
      return ec_call_fail(c, 1, "(%" PRId64 ", %" PRId64 ") around dimension %zu of size %" PRId64,
                          before, after, d, self->sizes[d]);
    sizes[d] = size;
  }
  return EC_OK;
}

/* Fills the result outside self, slab by slab, each element once. */
static void fill_around(const ec_call *c, const ec_tensor *out, const int64_t *start,
                        const int64_t *end, const void *element) {
  ec_region rest = ec_region_of(out);
  for (size_t d = 0; d < out->rank; d++) {
    ec_region slab = rest;
    ec_region_slice(&slab, d, 0, start[d], 1);
    ec_region_fill(c, &slab, out, element);
    slab = rest;
    ec_region_slice(&slab, d, end[d], out->sizes[d] - end[d], 1);
    ec_region_fill(c, &slab, out, element);
    ec_region_slice(&rest, d, start[d], end[d] - start[d], 1);
  }
}

/* Computes the padded sizes. Returns true if the number is written anywhere; eager checks it only
 * then. */
static bool padded_sizes(const ec_region *from, const int64_t *front, const int64_t *sizes) {
  for (size_t d = 0; d < from->rank; d++)
    if (front[d] > 0 || sizes[d] > from->sizes[d] + front[d]) return true;
  return false;
}

ec_status ec_op_constant_pad_nd_out(ec_call *c) {
  const ec_tensor *self = ec_arg_tensor(c, 0);
  ec_tensor *out = ec_arg_tensor(c, 3);
  ec_region from = ec_region_of(self);
  int64_t front[EC_MAX_RANK], sizes[EC_MAX_RANK], start[EC_MAX_RANK], end[EC_MAX_RANK];
  _Alignas(16) char element[16];
  EC_TRY(read_padding(c, &from, front, sizes));
  EC_TRY(ec_call_check_dtype(c, 3, EC_BIT(self->dtype)));
  if (padded_sizes(&from, front, sizes)) EC_TRY(ec_call_check_scalar(c, 2, ec_tensor_dtype(self)));
  EC_TRY(ec_call_resize(c, 3, from.rank, sizes));
  ec_cast_scalar(ec_tensor_dtype(out), ec_arg_scalar(c, 2), element);
  ec_region to = ec_region_of(out);
  for (size_t d = 0; d < from.rank; d++) {
    int64_t cut = front[d] < 0 ? -front[d] : 0;
    start[d] = ec_min_i64(front[d] < 0 ? 0 : front[d], sizes[d]);
    int64_t length = ec_max_i64(ec_min_i64(from.sizes[d] - cut, sizes[d] - start[d]), 0);
    end[d] = start[d] + length;
    ec_region_slice(&from, d, cut, length, 1);
    ec_region_slice(&to, d, start[d], length, 1);
  }
  fill_around(c, out, start, end, element);
  ec_view dst = ec_region_view(&to, out), src = ec_region_view(&from, self);
  ec_copy_view(c, &dst, &src);
  return EC_OK;
}

/* Matrices whose elements above a diagonal become zero. */
typedef struct triangle {
  const ec_tensor *self, *out;
  int64_t diagonal;
} triangle;

/* Processes rows of all matrices: moves the kept elements and fills the rest. */
static void lower_rows(void *user, size_t begin, size_t end) {
  static const char zero[16];
  const triangle *t = user;
  const ec_tensor *out = t->out, *self = t->self;
  const size_t last = out->rank - 1u, item = ec_dtype_size(ec_tensor_dtype(out));
  const int64_t columns = out->sizes[last], size = (int64_t)item;
  const int64_t to_step = out->strides[last] * size, from_step = self->strides[last] * size;
  for (size_t i = begin; i < end; i++) {
    int64_t rest = (int64_t)i, to = 0, from = 0, row = rest % out->sizes[last - 1];
    for (size_t d = last; d-- > 0; rest /= out->sizes[d]) {
      to += rest % out->sizes[d] * out->strides[d];
      from += rest % out->sizes[d] * self->strides[d];
    }
    int64_t keep = t->diagonal < -row ? 0 : ec_min_i64(columns, row + t->diagonal + 1);
    char *dst = (char *)out->data + to * size;
    ec_move(item, keep, dst, to_step, (const char *)self->data + from * size, from_step);
    ec_move(item, columns - keep, dst + keep * to_step, to_step, zero, 0);
  }
}

ec_status ec_op_tril_out(ec_call *c) {
  enum { GRAIN = 1 << 15 }; /* elements worth a thread */
  const ec_tensor *self = ec_arg_tensor(c, 0), *out = ec_arg_tensor(c, 2);
  if (self->rank < 2) return ec_call_fail(c, 0, "%u dimensions, expected at least 2", self->rank);
  EC_TRY(ec_call_check_dtype(c, 2, EC_BIT(self->dtype)));
  EC_TRY(ec_call_resize(c, 2, self->rank, self->sizes));
  if (out->numel == 0) return EC_OK;
  int64_t columns = out->sizes[out->rank - 1u];
  /* no row has more elements below its diagonal than columns */
  triangle t = {self, out, ec_min_i64(ec_arg_int(c, 1), columns)};
  ec_parallel_for(c, (size_t)(out->numel / columns), (size_t)(GRAIN / columns + 1), lower_rows, &t);
  return EC_OK;
}
