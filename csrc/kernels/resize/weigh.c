/* Weighted sums, one axis at a time. float16 and bfloat16 are computed as float32. */
#include <string.h>

#include "core/checked.h"
#include "core/template.h"
#include "kernels/resize/resize.h"

enum { RESIZE_BLOCK = 256 };

#define EC_TEMPLATE "kernels/resize/weigh.tmpl.h"
#include "core/dtype/uint8.h"
#include "core/foreach/wide.h"
#undef EC_TEMPLATE

typedef void (*weigh_fn)(const ec_axis *a, int64_t n, char *to, int64_t to_axis, int64_t to_step,
                         const char *from, int64_t from_axis, int64_t from_step);
static const weigh_fn weighs[EC_DTYPE_COUNT] = {EC_ROWS_WIDE(weigh), [EC_UINT8] = weigh_uint8};

/* Allocates scratch with the given sizes in the memory order of `like`. */
static ec_status new_view(ec_call *c, const ec_view *like, const int64_t *sizes, ec_dtype dtype,
                          ec_view *out) {
  uint8_t order[EC_RESIZE_RANK];
  int64_t numel;
  *out = *like;
  out->dtype = dtype;
  for (size_t d = 0; d < like->rank; d++) { /* by stride, the largest first */
    size_t at = d;
    for (; at > 0 && like->strides[order[at - 1]] < like->strides[d]; at--)
      order[at] = order[at - 1];
    order[at] = (uint8_t)d;
  }
  memcpy(out->sizes, sizes, like->rank * sizeof *sizes);
  if (!ec_numel(sizes, like->rank, &numel))
    return ec_fail(c->err, EC_INVALID_ARGUMENT, "the sizes between two axes overflow");
  ec_strides(out->sizes, order, like->rank, out->strides);
  return ec_call_scratch(c, (size_t)numel, ec_dtype_size(dtype), &out->data);
}

static void weigh_dim(const ec_axis *a, size_t dim, const ec_view *to, const ec_view *from) {
  int64_t item = (int64_t)ec_dtype_size(to->dtype), sizes[EC_RESIZE_RANK];
  ec_iter it;
  memcpy(sizes, from->sizes, sizeof sizes);
  sizes[dim] = 1;
  ec_iter_init(&it, to->rank, sizes);
  ec_iter_add(&it, to->data, (size_t)item, to->rank, sizes, to->strides);
  ec_iter_add(&it, from->data, (size_t)item, to->rank, sizes, from->strides);
  for (bool more = ec_iter_start(&it); more; more = ec_iter_next(&it))
    weighs[to->dtype](a, it.count, it.at[0], to->strides[dim], it.step[0] / item, it.at[1],
                      from->strides[dim], it.step[1] / item);
}

ec_status ec_resize_weigh(ec_call *c, const ec_resize *r) {
  bool half = ec_dtype_in(r->in.dtype, EC_SET_HALF);
  ec_view from = r->in, to = r->to;
  if (half) {
    EC_TRY(new_view(c, &r->to, r->in.sizes, EC_FLOAT32, &from));
    ec_copy_view(c, &from, &r->in);
  }
  size_t first = EC_RESIZE_RANK - r->axes;
  for (size_t d = EC_RESIZE_RANK; d-- > first;) {
    int64_t sizes[EC_RESIZE_RANK];
    memcpy(sizes, from.sizes, sizeof sizes);
    sizes[d] = r->axis[d].out;
    if (d > first || half) EC_TRY(new_view(c, &r->to, sizes, from.dtype, &to));
    else to = r->to;
    weigh_dim(&r->axis[d], d, &to, &from);
    from = to;
  }
  if (half) ec_copy_view(c, &r->to, &from);
  return EC_OK;
}
