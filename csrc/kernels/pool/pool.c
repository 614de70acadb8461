/* Arguments, output sizes and windows of pooling. */
#include "kernels/pool/pool.h"

#include <inttypes.h>

#include "core/checked.h"

/* One or two numbers for the two axes. An empty list gives false in `*given`. */
static ec_status read_pair(ec_call *c, size_t i, int64_t least, int64_t pair[2], bool *given) {
  ec_ints list;
  EC_TRY(ec_arg_ints(c, i, &list));
  *given = list.n > 0;
  if (!*given) return EC_OK;
  if (list.n > 2) return ec_call_fail(c, i, "%zu numbers, expected 1 or 2", list.n);
  for (size_t d = 0; d < 2; d++) {
    pair[d] = list.v[list.n == 2 ? d : 0];
    if (pair[d] >= least) continue;
    char text[EC_SHAPE_TEXT];
    return ec_call_fail(c, i, "found %s, expected %s numbers",
                        ec_shape_text(list.v, list.n, text, sizeof text),
                        least ? "positive" : "non-negative");
  }
  return EC_OK;
}

ec_status ec_pool_input(ec_call *c, ec_pool *p) {
  const ec_tensor *t = ec_arg_tensor(c, 0);
  EC_TRY(ec_call_check_rank(c, 0, 3, 4));
  size_t lead = t->rank - 3u;
  for (size_t d = lead; d < t->rank; d++) {
    char text[EC_SHAPE_TEXT];
    if (t->sizes[d] == 0)
      return ec_call_fail(c, 0, "shape %s, expected no 0 except for the batch",
                          ec_shape_text(t->sizes, t->rank, text, sizeof text));
  }
  p->dtype = ec_tensor_dtype(t);
  p->reference = c->reference;
  p->batch = lead ? t->sizes[0] : 1;
  p->channels = t->sizes[lead];
  p->axis[0].in = t->sizes[lead + 1];
  p->axis[1].in = t->sizes[lead + 2];
  p->in = t->data;
  ec_pool_strides(t, p->in_stride);
  return EC_OK;
}

void ec_pool_strides(const ec_tensor *t, int64_t strides[4]) {
  strides[0] = t->rank == 4 ? t->strides[0] : 0;
  for (size_t d = 1; d < 4; d++) strides[d] = t->strides[t->rank + d - 4];
}

/* The number of windows; false where a number leaves int64. */
static bool count_windows(ec_pool_axis *a, bool ceil_mode) {
  int64_t reach, size;
  if (!ec_mul_i64(a->kernel - 1, a->dilation, &reach) || !ec_add_i64(reach, 1, &reach) ||
      a->padding > reach / 2 || !ec_mul_i64(a->padding, 2, &size) ||
      !ec_add_i64(size, a->in, &size) || !ec_add_i64(size, a->stride, &size))
    return false;
  size -= a->stride; /* it fits with the stride, so that nothing below overflows */
  size -= reach;
  if (size < 0 && !(ceil_mode && size > -a->stride)) return false;
  a->out = size < 0 ? 1 : size / a->stride + 1;
  if (ceil_mode && size > 0 && size % a->stride) a->out++;
  if (ceil_mode && (a->out - 1) * a->stride >= a->in + a->padding) a->out--;
  return a->out > 0;
}

ec_status ec_pool_read(ec_call *c, const ec_pool_args *args, ec_pool *p) {
  int64_t kernel[2], stride[2], padding[2] = {0, 0}, dilation[2] = {1, 1};
  bool given;
  EC_TRY(ec_pool_input(c, p));
  EC_TRY(read_pair(c, args->kernel, 1, kernel, &given));
  if (!given) return ec_call_fail(c, args->kernel, "found (), expected 1 or 2 numbers");
  EC_TRY(read_pair(c, args->stride, 1, stride, &given));
  EC_TRY(read_pair(c, args->padding, 0, padding, &(bool){false}));
  if (args->dilation) EC_TRY(read_pair(c, args->dilation, 1, dilation, &(bool){false}));
  bool ceil_mode = ec_arg_bool(c, args->ceil_mode);
  for (size_t d = 0; d < 2; d++) {
    ec_pool_axis *a = &p->axis[d];
    a->kernel = kernel[d];
    a->stride = given ? stride[d] : kernel[d];
    a->padding = padding[d];
    a->dilation = dilation[d];
    if (count_windows(a, ceil_mode)) continue;
    return ec_call_fail(c, args->kernel, "size %" PRId64 " with padding %" PRId64
                        ", dilation %" PRId64 ", stride %" PRId64
                        " expected to fit an input of size %" PRId64
                        ", padding at most half of it",
                        a->kernel, a->padding, a->dilation, a->stride, a->in);
  }
  return EC_OK;
}

ec_status ec_pool_resize(ec_call *c, const ec_pool *p, size_t i) {
  size_t rank = ec_arg_tensor(c, 0)->rank;
  int64_t sizes[4] = {p->batch, p->channels, p->axis[0].out, p->axis[1].out};
  return ec_call_resize(c, i, rank, sizes + (4 - rank));
}

/* The window of output `o`. */
static ec_window window(const ec_pool_axis *a, int64_t o, bool include_padding) {
  int64_t start = o * a->stride - a->padding, first = start;
  if (first < 0) first += ((-first - 1) / a->dilation + 1) * a->dilation;
  int64_t skipped = (first - start) / a->dilation, left = a->kernel - skipped;
  int64_t inside = first < a->in ? (a->in - 1 - first) / a->dilation + 1 : 0;
  ec_window w = {first, ec_max_i64(0, ec_min_i64(left, inside)), a->dilation, 0};
  if (w.count <= 1) w.step = 1; /* a larger one stays below the input's size */
  w.first = ec_min_i64(first, a->in); /* an empty window may begin anywhere */
  int64_t end = ec_min_i64(start + a->kernel, a->in + a->padding);
  w.size = include_padding ? end - start : w.count;
  return w;
}

ec_status ec_pool_windows(ec_call *c, ec_pool *p, bool include_padding) {
  for (size_t d = 0; d < 2; d++) {
    ec_pool_axis *a = &p->axis[d];
    EC_TRY(ec_call_scratch(c, (size_t)a->out, sizeof *a->windows, &a->windows));
    for (int64_t o = 0; o < a->out; o++) a->windows[o] = window(a, o, include_padding);
  }
  return EC_OK;
}
