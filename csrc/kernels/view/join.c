/* Several tensors joined, and one tensor repeated: cat, stack, repeat. */
#include <inttypes.h>

#include "core/checked.h"
#include "kernels/promote.h"
#include "kernels/view/region.h"

/* Copies the list's tensor structs, in case the output is one of them, and finds their common
 * dtype. */
static ec_status read_list(ec_call *c, size_t out, ec_tensors list, ec_tensor **tensors) {
  ec_result_type types = {0};
  ec_dtype dtype;
  if (list.n == 0) return ec_call_fail(c, 0, "no tensors, expected at least one");
  EC_TRY(ec_call_scratch(c, list.n, sizeof **tensors, tensors));
  for (size_t i = 0; i < list.n; i++) {
    const ec_tensor *t = ec_list_tensor(list, i);
    if (!t) return ec_call_fail(c, 0, "item %zu is None, expected a tensor", i);
    (*tensors)[i] = *t;
    ec_result_add_tensor(&types, t);
  }
  EC_TRY(ec_result_dtype(c, &types, &dtype));
  return ec_call_check_cast(c, out, dtype);
}

/* True for 1-d tensors without elements, which eager's legacy rule accepts anywhere. */
static bool is_skipped(const ec_tensor *t) { return t->rank == 1 && t->sizes[0] == 0; }

static ec_status cat_sizes(ec_call *c, const ec_tensor *tensors, size_t n, size_t *dim,
                           ec_region *whole) {
  const ec_tensor *first = NULL;
  char mine[EC_SHAPE_TEXT], theirs[EC_SHAPE_TEXT];
  for (size_t i = 0; i < n; i++) {
    const ec_tensor *t = &tensors[i];
    if (t->rank == 0) return ec_call_fail(c, 0, "item %zu is 0-d, expected dimensions", i);
    if (is_skipped(t)) continue;
    if (!first) {
      first = t;
      *whole = ec_region_of(t);
      EC_TRY(ec_call_wrap_dim(c, ec_arg_int(c, 1), t->rank, dim));
      continue;
    }
    bool same = t->rank == first->rank;
    for (size_t d = 0; same && d < t->rank; d++) same = d == *dim || t->sizes[d] == first->sizes[d];
    if (!same)
      return ec_call_fail(c, 0, "item %zu has shape %s, it differs from %s outside dimension %zu",
                          i, ec_shape_text(t->sizes, t->rank, mine, sizeof mine),
                          ec_shape_text(first->sizes, first->rank, theirs, sizeof theirs), *dim);
    if (!ec_add_i64(whole->sizes[*dim], t->sizes[*dim], &whole->sizes[*dim]))
      return ec_call_fail(c, 0, "the sizes of dimension %zu overflow", *dim);
  }
  if (!first) *whole = ec_region_of(&tensors[0]);
  return EC_OK;
}

ec_status ec_op_cat_out(ec_call *c) {
  ec_tensors list = ec_arg_tensors(c, 0);
  ec_tensor *tensors, *out = ec_arg_tensor(c, 2);
  ec_region whole;
  size_t dim = 0;
  EC_TRY(read_list(c, 2, list, &tensors));
  EC_TRY(cat_sizes(c, tensors, list.n, &dim, &whole));
  EC_TRY(ec_call_resize(c, 2, whole.rank, whole.sizes));
  whole = ec_region_of(out);
  int64_t start = 0;
  for (size_t i = 0; i < list.n; i++) {
    if (is_skipped(&tensors[i])) continue;
    ec_region part = whole, item = ec_region_of(&tensors[i]);
    ec_region_slice(&part, dim, start, tensors[i].sizes[dim], 1);
    ec_view to = ec_region_view(&part, out), from = ec_region_view(&item, ec_list_tensor(list, i));
    ec_copy_to_out(c, &to, &from);
    start += tensors[i].sizes[dim];
  }
  return EC_OK;
}

ec_status ec_op_stack_out(ec_call *c) {
  ec_tensors list = ec_arg_tensors(c, 0);
  ec_tensor *tensors, *out = ec_arg_tensor(c, 2);
  char mine[EC_SHAPE_TEXT], theirs[EC_SHAPE_TEXT];
  size_t dim;
  EC_TRY(read_list(c, 2, list, &tensors));
  const ec_tensor *first = &tensors[0];
  for (size_t i = 1; i < list.n; i++)
    if (!ec_tensor_same_sizes(&tensors[i], first))
      return ec_call_fail(
          c, 0, "item %zu has shape %s, expected %s", i,
          ec_shape_text(tensors[i].sizes, tensors[i].rank, mine, sizeof mine),
          ec_shape_text(first->sizes, first->rank, theirs, sizeof theirs));
  EC_TRY(ec_call_wrap_dim(c, ec_arg_int(c, 1), first->rank + 1u, &dim));
  if (first->rank == EC_MAX_RANK)
    return ec_call_fail(c, 0, "the result has more than %d dimensions", EC_MAX_RANK);
  ec_region whole = ec_region_of(first);
  ec_region_insert(&whole, dim, (int64_t)list.n, 0);
  EC_TRY(ec_call_resize(c, 2, whole.rank, whole.sizes));
  whole = ec_region_of(out);
  for (size_t i = 0; i < list.n; i++) {
    ec_region part = whole, item = ec_region_of(&tensors[i]);
    ec_region_select(&part, dim, (int64_t)i);
    ec_view to = ec_region_view(&part, out), from = ec_region_view(&item, ec_list_tensor(list, i));
    ec_copy_to_out(c, &to, &from);
  }
  return EC_OK;
}

/* Doubles the filled part along one dimension until it is full. */
static void repeat_along(const ec_call *c, const ec_tensor *out, ec_region *done, size_t dim) {
  int64_t size = out->sizes[dim];
  while (done->sizes[dim] < size) {
    int64_t have = done->sizes[dim], more = ec_min_i64(have, size - have);
    ec_region from = *done, to = *done;
    from.sizes[dim] = to.sizes[dim] = more;
    to.offset += have * out->strides[dim];
    ec_view dst = ec_region_view(&to, out), src = ec_region_view(&from, out);
    ec_copy_view(c, &dst, &src);
    done->sizes[dim] += more;
  }
}

ec_status ec_op_repeat_out(ec_call *c) {
  const ec_tensor *self = ec_arg_tensor(c, 0);
  ec_tensor *out = ec_arg_tensor(c, 2);
  ec_region item = ec_region_of(self);
  int64_t sizes[EC_MAX_RANK];
  ec_ints repeats;
  EC_TRY(ec_arg_ints(c, 1, &repeats));
  if (repeats.n < item.rank || repeats.n > EC_MAX_RANK)
    return ec_call_fail(c, 1, "%zu numbers, expected %zu to %d", repeats.n, item.rank, EC_MAX_RANK);
  while (item.rank < repeats.n) ec_region_insert(&item, 0, 1, 0);
  for (size_t d = 0; d < repeats.n; d++)
    if (repeats.v[d] < 0 || !ec_mul_i64(item.sizes[d], repeats.v[d], &sizes[d]))
      return ec_call_fail(c, 1, "%" PRId64 " times %" PRId64 " elements", repeats.v[d],
                          item.sizes[d]);
  EC_TRY(ec_call_check_dtype(c, 2, EC_BIT(self->dtype)));
  EC_TRY(ec_call_resize(c, 2, repeats.n, sizes));
  if (out->numel == 0) return EC_OK;
  ec_region done = ec_region_of(out);
  for (size_t d = 0; d < done.rank; d++) done.sizes[d] = item.sizes[d];
  ec_view to = ec_region_view(&done, out), from = ec_region_view(&item, self);
  ec_copy_view(c, &to, &from);
  for (size_t d = done.rank; d-- > 0;) repeat_along(c, out, &done, d);
  return EC_OK;
}
