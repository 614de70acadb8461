/* Operators that move elements of any dtype. */
#include "operators.h"

/* Copies `count` elements between tensors of one dtype. */
static void copy(const ec_backend_tensor *to, int64_t at, const ec_backend_tensor *from,
                 int64_t first, int64_t count) {
  const size_t width = ec_backend_dtype_size(to->dtype);
  if (count > 0)
    memcpy((uint8_t *)to->data + (size_t)at * width,
           (const uint8_t *)from->data + (size_t)first * width, (size_t)count * width);
}

/* The elements of a tensor as outer, axis, inner. */
typedef struct split {
  const ec_backend_tensor *x;
  size_t axis;
  int64_t outer, size, inner;
} split;

static uint32_t read_split(const emo_call *c, int64_t axis, split *s) {
  EC_BACKEND_TRY(emo_tensor(c, 0, "x", &s->x));
  EC_BACKEND_TRY(emo_axis(c, axis, s->x->rank, &s->axis));
  s->outer = emo_product(s->x->sizes, 0, s->axis);
  s->size = s->x->sizes[s->axis];
  s->inner = emo_product(s->x->sizes, s->axis + 1, s->x->rank);
  return EC_BACKEND_OK;
}

/* The output has another size in the axis. */
static uint32_t resize_axis(const emo_call *c, size_t out, const split *s, int64_t size,
                            const ec_backend_tensor **to) {
  int64_t sizes[EMO_MAX_RANK];
  memcpy(sizes, s->x->sizes, s->x->rank * sizeof *sizes);
  sizes[s->axis] = size;
  return emo_output(c, out, s->x->rank, sizes, s->x, to);
}

/* ---- indices --------------------------------------------------------------------------------- */

uint32_t emo_take(const emo_call *c) {
  split s;
  const ec_backend_tensor *indices, *out;
  int64_t sizes[2 * EMO_MAX_RANK];
  EC_BACKEND_TRY(read_split(c, c->args[2].as.i, &s));
  EC_BACKEND_TRY(emo_tensor(c, 1, "indices", &indices));
  const size_t rank = s.x->rank + indices->rank - 1u, rest = s.x->rank - s.axis - 1;
  if (rank > EMO_MAX_RANK || emo_is_float(indices->dtype))
    return EC_ARG_FAIL(c, "'indices' has %u dimensions of %s", (unsigned)indices->rank,
                       ec_backend_dtype_name(indices->dtype));
  memcpy(sizes, s.x->sizes, s.axis * sizeof *sizes);
  memcpy(sizes + s.axis, indices->sizes, indices->rank * sizeof *sizes);
  memcpy(sizes + s.axis + indices->rank, s.x->sizes + s.axis + 1, rest * sizeof *sizes);
  EC_BACKEND_TRY(emo_output(c, 3, rank, sizes, s.x, &out));
  const int64_t count = ec_arg_count(indices);
  for (int64_t i = 0; i < count && s.outer && s.inner; i++) {
    int64_t index = 0;
    EC_BACKEND_TRY(emo_index(c, indices, i, s.size, &index));
    for (int64_t o = 0; o < s.outer; o++)
      copy(out, (o * count + i) * s.inner, s.x, (o * s.size + index) * s.inner, s.inner);
  }
  return EC_BACKEND_OK;
}

uint32_t emo_take_along_axis(const emo_call *c) {
  split s;
  const ec_backend_tensor *indices, *out;
  int64_t all[EMO_MAX_RANK], sizes[EMO_MAX_RANK];
  size_t rank;
  EC_BACKEND_TRY(read_split(c, c->args[2].as.i, &s));
  EC_BACKEND_TRY(emo_tensor(c, 1, "indices", &indices));
  if (indices->rank != s.x->rank || emo_is_float(indices->dtype))
    return EC_ARG_FAIL(c, "'indices' has %u dimensions of %s", (unsigned)indices->rank,
                       ec_backend_dtype_name(indices->dtype));
  memcpy(all, s.x->sizes, s.x->rank * sizeof *all);
  all[s.axis] = indices->sizes[s.axis];
  EC_BACKEND_TRY(emo_broadcast(c, all, s.x->rank, indices->sizes, indices->rank, sizes, &rank));
  EC_BACKEND_TRY(emo_output(c, 3, rank, sizes, s.x, &out));
  const int64_t count = emo_product(sizes, 0, rank);
  for (int64_t i = 0; i < count; i++) {
    int64_t index = 0, from = 0, rest = i, step = 1;
    const int64_t at = emo_place(indices->sizes, rank, sizes, rank, i);
    EC_BACKEND_TRY(emo_index(c, indices, at, s.size, &index));
    for (size_t d = rank; d-- > 0; step *= s.x->sizes[d], rest /= sizes[d])
      from += (d == s.axis ? index : s.x->sizes[d] == 1 ? 0 : rest % sizes[d]) * step;
    copy(out, i, s.x, from, 1);
  }
  return EC_BACKEND_OK;
}

/* A gather: indices broadcast to `sizes`, of `rank` dimensions; slices follow. */
typedef struct gather {
  const ec_backend_tensor *x, *out;
  int64_t slices[EMO_MAX_RANK], axes[EMO_MAX_RANK], sizes[2 * EMO_MAX_RANK];
  size_t rank, index_count;
  int64_t slice, steps[EMO_MAX_RANK];
} gather;

static uint32_t read_gather(const emo_call *c, gather *g) {
  const size_t rank = g->x->rank;
  g->index_count = c->args[1].as.list.count;
  EC_BACKEND_TRY(EC_ARG_INTS(c, 2, g->axes, .name = "axes", .count = g->index_count, .least = 0,
                             .most = (int64_t)rank - 1));
  EC_BACKEND_TRY(EC_ARG_INTS(c, 3, g->slices, .name = "slice_sizes", .count = rank, .least = 0,
                             .most = INT64_MAX));
  for (size_t i = 0; i < g->index_count; i++) {
    const ec_backend_tensor *t = &c->args[1].as.list.items[i].as.tensor;
    if (c->args[1].as.list.items[i].kind != EC_BACKEND_TENSOR || !ec_arg_is_row_major(t) ||
        emo_is_float(t->dtype))
      return EC_ARG_FAIL(c, "index %zu is not a contiguous tensor of integers", i);
    int64_t sizes[EMO_MAX_RANK];
    EC_BACKEND_TRY(emo_broadcast(c, g->sizes, g->rank, t->sizes, t->rank, sizes, &g->rank));
    memcpy(g->sizes, sizes, g->rank * sizeof *sizes);
  }
  g->slice = 1;
  for (size_t d = rank; d-- > 0; g->slice *= g->slices[d]) {
    if (g->slices[d] > g->x->sizes[d])
      return EC_ARG_FAIL(c, "slices of %lld in a dimension of %lld", (long long)g->slices[d],
                         (long long)g->x->sizes[d]);
    g->steps[d] = emo_product(g->x->sizes, d + 1, rank);
  }
  return EC_BACKEND_OK;
}

/* Finds where the slice of an item begins. */
static uint32_t find_slice(const emo_call *c, const gather *g, int64_t item, int64_t *start) {
  *start = 0;
  for (size_t i = 0; i < g->index_count; i++) {
    const ec_backend_tensor *t = &c->args[1].as.list.items[i].as.tensor;
    const int64_t axis = g->axes[i], size = g->x->sizes[axis];
    const int64_t at = emo_place(t->sizes, t->rank, g->sizes, g->rank, item);
    int64_t index = 0;
    EC_BACKEND_TRY(emo_index(c, t, at, size, &index));
    if (index > size - g->slices[axis])
      return EC_ARG_FAIL(c, "a slice from %lld on leaves axis %lld", (long long)index,
                         (long long)axis);
    *start += index * g->steps[axis];
  }
  return EC_BACKEND_OK;
}

uint32_t emo_gather(const emo_call *c) {
  gather g = {.rank = 0};
  EC_BACKEND_TRY(emo_tensor(c, 0, "x", &g.x));
  if (c->args[1].as.list.count > EMO_MAX_RANK) return EC_ARG_FAIL(c, "too many indices");
  EC_BACKEND_TRY(read_gather(c, &g));
  const int64_t count = emo_product(g.sizes, 0, g.rank);
  if (g.rank + g.x->rank > EMO_MAX_RANK)
    return EC_ARG_FAIL(c, "more than %d dimensions", EMO_MAX_RANK);
  memcpy(g.sizes + g.rank, g.slices, g.x->rank * sizeof *g.sizes);
  EC_BACKEND_TRY(emo_output(c, 4, g.rank + g.x->rank, g.sizes, g.x, &g.out));
  for (int64_t item = 0; item < count && g.slice; item++) {
    int64_t start;
    EC_BACKEND_TRY(find_slice(c, &g, item, &start));
    for (int64_t i = 0; i < g.slice; i++) {
      int64_t from = start, rest = i;
      for (size_t d = g.x->rank; d-- > 0; rest /= g.slices[d])
        from += rest % g.slices[d] * g.steps[d];
      copy(g.out, item * g.slice + i, g.x, from, 1);
    }
  }
  return EC_BACKEND_OK;
}

/* ---- slices and copies ----------------------------------------------------------------------- */

uint32_t emo_reverse_slice(const emo_call *c) {
  split s;
  const ec_backend_tensor *out;
  int64_t start = c->args[2].as.i, stop = c->args[3].as.i;
  const int64_t step = c->args[4].as.i;
  EC_BACKEND_TRY(read_split(c, c->args[1].as.i, &s));
  if (step >= 0 || step < -INT32_MAX) return EC_ARG_FAIL(c, "step %lld", (long long)step);
  start = start < 0 ? start + s.size : start;
  stop = stop < 0 ? stop + s.size : stop;
  start = start < s.size - 1 ? start : s.size - 1;
  stop = stop > -1 ? stop : -1;
  const int64_t count = stop < start ? (start - stop - step - 1) / -step : 0;
  EC_BACKEND_TRY(resize_axis(c, 5, &s, count, &out));
  for (int64_t o = 0; o < s.outer; o++)
    for (int64_t i = 0; i < count; i++)
      copy(out, (o * count + i) * s.inner, s.x, (o * s.size + start + i * step) * s.inner, s.inner);
  return EC_BACKEND_OK;
}

uint32_t emo_pad_edge(const emo_call *c) {
  const ec_backend_tensor *x, *out;
  int64_t pads[2 * EMO_MAX_RANK], sizes[EMO_MAX_RANK];
  EC_BACKEND_TRY(emo_tensor(c, 0, "x", &x));
  EC_BACKEND_TRY(EC_ARG_INTS(c, 1, pads, .name = "pad_width", .count = 2u * x->rank, .least = 0,
                             .most = INT32_MAX));
  for (size_t d = 0; d < x->rank; d++) {
    sizes[d] = x->sizes[d] + pads[2 * d] + pads[2 * d + 1];
    if (!x->sizes[d]) return EC_ARG_FAIL(c, "dimension %zu is empty", d);
  }
  EC_BACKEND_TRY(emo_output(c, 2, x->rank, sizes, x, &out));
  const int64_t count = ec_arg_count(out);
  for (int64_t i = 0; i < count; i++) {
    int64_t from = 0, rest = i, step = 1;
    for (size_t d = x->rank; d-- > 0; rest /= sizes[d], step *= x->sizes[d]) {
      const int64_t place = rest % sizes[d] - pads[2 * d], last = x->sizes[d] - 1;
      from += (place < 0 ? 0 : place < last ? place : last) * step;
    }
    copy(out, i, x, from, 1);
  }
  return EC_BACKEND_OK;
}

uint32_t emo_repeat(const emo_call *c) {
  split s;
  const ec_backend_tensor *out;
  const int64_t repeats = c->args[1].as.i;
  int64_t size;
  EC_BACKEND_TRY(read_split(c, c->args[2].as.i, &s));
  if (repeats < 0 || __builtin_mul_overflow(repeats, s.size, &size))
    return EC_ARG_FAIL(c, "%lld repeats", (long long)repeats);
  EC_BACKEND_TRY(resize_axis(c, 3, &s, size, &out));
  for (int64_t o = 0; o < s.outer; o++)
    for (int64_t i = 0; i < size; i++)
      copy(out, (o * size + i) * s.inner, s.x, (o * s.size + i / repeats) * s.inner, s.inner);
  return EC_BACKEND_OK;
}

uint32_t emo_triu(const emo_call *c) {
  const ec_backend_tensor *x, *out;
  EC_BACKEND_TRY(emo_tensor(c, 0, "x", &x));
  if (x->rank < 2) return EC_ARG_FAIL(c, "'x' has fewer than two dimensions");
  EC_BACKEND_TRY(emo_output(c, 2, x->rank, x->sizes, x, &out));
  const int64_t columns = x->sizes[x->rank - 1], rows = x->sizes[x->rank - 2];
  const int64_t all = emo_product(x->sizes, 0, x->rank - 1u);
  const size_t width = ec_backend_dtype_size(x->dtype);
  for (int64_t row = 0; row < all; row++) {
    int64_t first;
    if (__builtin_add_overflow(row % rows, c->args[1].as.i, &first)) first = columns;
    first = first < 0 ? 0 : first < columns ? first : columns;
    memset((uint8_t *)out->data + (size_t)(row * columns) * width, 0, (size_t)first * width);
    copy(out, row * columns + first, x, row * columns + first, columns - first);
  }
  return EC_BACKEND_OK;
}

uint32_t emo_store(const emo_call *c) {
  const ec_backend_tensor *x, *out;
  const int64_t index = c->args[1].as.i, count = c->args[2].as.i;
  int64_t sizes[EMO_MAX_RANK];
  size_t axis;
  EC_BACKEND_TRY(emo_tensor(c, 0, "x", &x));
  EC_BACKEND_TRY(emo_axis(c, c->args[3].as.i, x->rank + 1u, &axis));
  if (index < 0 || index >= count || x->rank + 1u > EMO_MAX_RANK)
    return EC_ARG_FAIL(c, "item %lld of %lld", (long long)index, (long long)count);
  memcpy(sizes, x->sizes, axis * sizeof *sizes);
  memcpy(sizes + axis + 1, x->sizes + axis, (x->rank - axis) * sizeof *sizes);
  sizes[axis] = count;
  EC_BACKEND_TRY(emo_output(c, 4, x->rank + 1u, sizes, x, &out));
  const int64_t outer = emo_product(x->sizes, 0, axis);
  const int64_t inner = emo_product(x->sizes, axis, x->rank);
  for (int64_t o = 0; o < outer; o++)
    copy(out, (o * count + index) * inner, x, o * inner, inner);
  return EC_BACKEND_OK;
}
