/* Sliding windows as columns, and the sums of columns back into an image. For all windows at once,
 * one position of the window is a region of the image and a region of the columns: each position is
 * one copy, or one sum, of views. */
#include <inttypes.h>
#include <string.h>

#include "core/checked.h"
#include "core/template.h"
#include "kernels/copy.h"

/* float16 and bfloat16 are added as float32. */
#define EC_TEMPLATE "kernels/view/fold.tmpl.h"
#define EC_PLUS(x, y) ((EC_T)((uint64_t)(x) + (uint64_t)(y)))
#include "core/foreach/integral.h"
#undef EC_PLUS
#define EC_PLUS(x, y) ((x) + (y))
#include "core/foreach/complex.h"
#include "core/foreach/wide.h"
#undef EC_PLUS
#define EC_PLUS(x, y) ((EC_T)((x) | (y)))
#include "core/dtype/bool.h"
#undef EC_PLUS
#undef EC_TEMPLATE

static const ec_loop sums[EC_DTYPE_COUNT] = {EC_ROWS_INTB(plus), EC_ROWS_WIDE(plus),
                                             EC_ROWS_COMPLEX(plus)};

static void add_view(const ec_view *to, const ec_view *from) {
  size_t item = ec_dtype_size(to->dtype);
  ec_iter it;
  ec_iter_init(&it, to->rank, to->sizes);
  ec_iter_add(&it, to->data, item, to->rank, to->sizes, to->strides);
  ec_iter_add(&it, from->data, item, from->rank, from->sizes, from->strides);
  for (bool more = ec_iter_start(&it); more; more = ec_iter_next(&it))
    sums[to->dtype](it.count, it.at, it.step, NULL);
}

/* Returns a tensor's elements (float16 and bfloat16 as float32 in scratch): zeros, or a copy. */
static ec_status wide_view(ec_call *c, const ec_tensor *t, bool zeros, ec_view *v) {
  static const char zero[16];
  *v = ec_view_of(t);
  bool half = ec_dtype_in(v->dtype, EC_SET_HALF);
  if (half) {
    uint8_t order[EC_MAX_RANK];
    for (size_t d = 0; d < t->rank; d++) order[d] = (uint8_t)d;
    ec_strides(t->sizes, order, t->rank, v->strides);
    v->dtype = EC_FLOAT32;
    if (zeros) return ec_call_scratch(c, (size_t)t->numel, sizeof(float), &v->data);
    void *data;
    EC_TRY(ec_call_packed(c, t, EC_FLOAT32, &data));
    v->data = data;
  } else if (zeros) {
    ec_fill_view(c, v, zero);
  }
  return EC_OK;
}

static void cast_to_output(const ec_call *c, ec_tensor *out, const ec_view *wide) {
  ec_view to = ec_view_of(out);
  if (to.dtype != wide->dtype) ec_copy_view(c, &to, wide);
}

/* The windows of an image along one axis. */
typedef struct windows {
  int64_t size, kernel, dilation, padding, stride, count;
} windows;

static ec_status read_pair(ec_call *c, size_t arg, int64_t least, int64_t *first,
                           int64_t *second) {
  ec_ints list;
  EC_TRY(ec_arg_ints(c, arg, &list));
  char text[EC_SHAPE_TEXT];
  if (list.n != 2 || list.v[0] < least || list.v[1] < least)
    return ec_call_fail(c, arg, "found %s, expected two numbers of at least %" PRId64,
                        ec_shape_text(list.v, list.n, text, sizeof text), least);
  *first = list.v[0];
  *second = list.v[1];
  return EC_OK;
}

/* Reads kernel, dilation, padding, stride from `arg` on; the images' sizes are known. */
static ec_status read_windows(ec_call *c, size_t arg, windows w[2]) {
  EC_TRY(read_pair(c, arg, 1, &w[0].kernel, &w[1].kernel));
  EC_TRY(read_pair(c, arg + 1, 1, &w[0].dilation, &w[1].dilation));
  EC_TRY(read_pair(c, arg + 2, 0, &w[0].padding, &w[1].padding));
  EC_TRY(read_pair(c, arg + 3, 1, &w[0].stride, &w[1].stride));
  for (windows *a = w; a < w + 2; a++) {
    int64_t reach, padded;
    bool fits = ec_mul_i64(a->kernel - 1, a->dilation, &reach) &&
                ec_mul_i64(a->padding, 2, &padded) && ec_add_i64(padded, a->size, &padded) &&
                padded > reach;
    if (!fits)
      return ec_call_fail(c, arg, "size %" PRId64 " with dilation %" PRId64 " and padding %" PRId64
                          ", expected to fit an image of size %" PRId64,
                          a->kernel, a->dilation, a->padding, a->size);
    a->count = (padded - reach - 1) / a->stride + 1;
  }
  return EC_OK;
}

/* Checks argument 0: `rank` dimensions, or one more for a batch; only the batch may be empty. */
static ec_status check_input(ec_call *c, size_t rank, size_t out) {
  const ec_tensor *t = ec_arg_tensor(c, 0);
  EC_TRY(ec_call_check_dtype(c, 0, c->op->dtypes));
  EC_TRY(ec_call_check_same_dtype(c, out, 0));
  EC_TRY(ec_call_check_rank(c, 0, rank, rank + 1));
  char text[EC_SHAPE_TEXT];
  for (size_t d = t->rank - rank; d < t->rank; d++)
    if (t->sizes[d] == 0)
      return ec_call_fail(c, 0, "shape %s, expected no 0 except for the batch",
                          ec_shape_text(t->sizes, t->rank, text, sizeof text));
  return EC_OK;
}

/* Returns the number of windows whose element `k` is inside the image, the first one in *first, and
 * its position of the element in *at. */
static int64_t clip_window(const windows *w, int64_t k, int64_t *first, int64_t *at) {
  int64_t start = k * w->dilation - w->padding, end = w->size - 1 - start;
  *first = start < 0 ? (-start - 1) / w->stride + 1 : 0;
  int64_t n = ec_min_i64(end < 0 ? 0 : end / w->stride + 1, w->count) - *first;
  *at = n > 0 ? start + *first * w->stride : 0;
  return n;
}

/* Computes views of element (y, x) of all windows in the images and the columns; false if there are
 * none. Both have a batch. */
static bool element_views(const windows w[2], int64_t y, int64_t x, ec_view *image,
                          ec_view *columns) {
  int64_t first[2], at[2], n[2] = {clip_window(&w[0], y, &first[0], &at[0]),
                                   clip_window(&w[1], x, &first[1], &at[1])};
  if (n[0] <= 0 || n[1] <= 0) return false;
  int64_t item = (int64_t)ec_dtype_size(image->dtype), *is = image->strides;
  int64_t channel = columns->strides[1], block = columns->strides[2];
  image->data += (at[0] * is[2] + at[1] * is[3]) * item;
  columns->data += ((y * w[1].kernel + x) * channel +
                    (first[0] * w[1].count + first[1]) * block) * item;
  for (size_t d = 0; d < 2; d++) {
    image->sizes[2 + d] = n[d];
    if (n[d] > 1) is[2 + d] *= w[d].stride; /* within the image, so it cannot overflow */
  }
  *columns = (ec_view){columns->data, columns->dtype, 4,
                       {image->sizes[0], image->sizes[1], n[0], n[1]},
                       {columns->strides[0], channel * w[0].kernel * w[1].kernel,
                        block * w[1].count, block}};
  return true;
}

/* Prepends a batch of one if there is none. */
static ec_view add_batch_dim(ec_view v, size_t rank) {
  if (v.rank == rank) return v;
  memmove(v.sizes + 1, v.sizes, v.rank * sizeof *v.sizes);
  memmove(v.strides + 1, v.strides, v.rank * sizeof *v.strides);
  v.sizes[0] = 1;
  v.strides[0] = 0;
  v.rank++;
  return v;
}

ec_status ec_op_im2col_out(ec_call *c) {
  static const char zero[16];
  const ec_tensor *self = ec_arg_tensor(c, 0);
  ec_tensor *out = ec_arg_tensor(c, 5);
  windows w[2] = {{0}, {0}};
  EC_TRY(check_input(c, 3, 5));
  size_t lead = self->rank - 3;
  for (size_t d = 0; d < 2; d++) w[d].size = self->sizes[lead + 1 + d];
  EC_TRY(read_windows(c, 1, w));
  int64_t sizes[3] = {self->sizes[0], self->sizes[lead], 0};
  if (!ec_mul_i64(sizes[lead], w[0].kernel, &sizes[lead]) ||
      !ec_mul_i64(sizes[lead], w[1].kernel, &sizes[lead]) ||
      !ec_mul_i64(w[0].count, w[1].count, &sizes[lead + 1]))
    return ec_call_fail(c, 1, "too many elements");
  EC_TRY(ec_call_resize(c, 5, lead + 2, sizes));
  ec_fill_tensor(c, out, zero);
  if (out->numel == 0) return EC_OK;
  for (int64_t y = 0; y < w[0].kernel; y++)
    for (int64_t x = 0; x < w[1].kernel; x++) {
      ec_view image = add_batch_dim(ec_view_of(self), 4);
      ec_view columns = add_batch_dim(ec_view_of(out), 3);
      if (element_views(w, y, x, &image, &columns)) ec_copy_view(c, &columns, &image);
    }
  return EC_OK;
}

static ec_status check_columns(ec_call *c, const windows w[2], int64_t *channels) {
  const ec_tensor *self = ec_arg_tensor(c, 0);
  const int64_t *sizes = self->sizes + self->rank - 2;
  int64_t window, blocks;
  if (!ec_mul_i64(w[0].kernel, w[1].kernel, &window) || sizes[0] % window)
    return ec_call_fail(c, 0, "%" PRId64 " rows, expected a multiple of the kernel's %" PRId64
                        " x %" PRId64 " elements", sizes[0], w[0].kernel, w[1].kernel);
  if (!ec_mul_i64(w[0].count, w[1].count, &blocks) || sizes[1] != blocks)
    return ec_call_fail(c, 0, "%" PRId64 " columns, expected %" PRId64 " x %" PRId64 " windows",
                        sizes[1], w[0].count, w[1].count);
  *channels = sizes[0] / window;
  return EC_OK;
}

ec_status ec_op_col2im_out(ec_call *c) {
  const ec_tensor *self = ec_arg_tensor(c, 0);
  windows w[2] = {{0}, {0}};
  ec_view from, to;
  EC_TRY(check_input(c, 2, 6));
  EC_TRY(read_pair(c, 1, 1, &w[0].size, &w[1].size));
  EC_TRY(read_windows(c, 2, w));
  size_t lead = self->rank - 2;
  int64_t sizes[4] = {self->sizes[0], 0, 0, 0};
  EC_TRY(check_columns(c, w, &sizes[lead]));
  for (size_t d = 0; d < 2; d++) sizes[lead + 1 + d] = w[d].size;
  EC_TRY(ec_call_resize(c, 6, lead + 3, sizes));
  EC_TRY(wide_view(c, self, false, &from));
  EC_TRY(wide_view(c, ec_arg_tensor(c, 6), true, &to));
  if (self->numel == 0) return EC_OK;
  for (int64_t y = 0; y < w[0].kernel; y++)
    for (int64_t x = 0; x < w[1].kernel; x++) {
      ec_view image = add_batch_dim(to, 4), columns = add_batch_dim(from, 3);
      if (element_views(w, y, x, &image, &columns)) add_view(&image, &columns);
    }
  cast_to_output(c, ec_arg_tensor(c, 6), &to);
  return EC_OK;
}

enum { U_GRAD, U_SIZES, U_DIM, U_SIZE, U_STEP, U_OUT };

/* Checks the gradients' shape: windows of `size` elements in dimension `dim`. */
static ec_status check_unfolded(ec_call *c, ec_ints sizes, size_t dim, int64_t *count) {
  const ec_tensor *grad = ec_arg_tensor(c, U_GRAD);
  int64_t size = ec_arg_int(c, U_SIZE), step = ec_arg_int(c, U_STEP);
  int64_t have = sizes.n ? sizes.v[dim] : 1, expected[EC_MAX_RANK];
  if (step <= 0) return ec_call_fail(c, U_STEP, "%" PRId64 ", expected a positive step", step);
  if (size < 0 || size > have)
    return ec_call_fail(c, U_SIZE, "windows of %" PRId64 " elements, the dimension has %" PRId64,
                        size, have);
  *count = (have - size) / step + 1;
  for (size_t d = 0; d < sizes.n; d++) expected[d] = d == dim ? *count : sizes.v[d];
  expected[sizes.n] = size;
  bool same = grad->rank == sizes.n + 1;
  for (size_t d = 0; same && d <= sizes.n; d++) same = grad->sizes[d] == expected[d];
  char actual[EC_SHAPE_TEXT], text[EC_SHAPE_TEXT];
  if (same) return EC_OK;
  return ec_call_fail(c, U_GRAD, "shape %s, expected %s",
                      ec_shape_text(grad->sizes, grad->rank, actual, sizeof actual),
                      ec_shape_text(expected, sizes.n + 1, text, sizeof text));
}

ec_status ec_op_unfold_backward_out(ec_call *c) {
  ec_ints sizes;
  size_t dim;
  int64_t count = 0;
  ec_view from, to;
  EC_TRY(ec_call_check_same_dtype(c, U_OUT, U_GRAD));
  EC_TRY(ec_arg_ints(c, U_SIZES, &sizes));
  if (sizes.n >= EC_MAX_RANK)
    return ec_call_fail(c, U_SIZES, "%zu dimensions, expected less than %d", sizes.n, EC_MAX_RANK);
  EC_TRY(ec_call_wrap_dim(c, ec_arg_int(c, U_DIM), sizes.n, &dim));
  EC_TRY(check_unfolded(c, sizes, dim, &count));
  EC_TRY(ec_call_resize(c, U_OUT, sizes.n, sizes.v));
  EC_TRY(wide_view(c, ec_arg_tensor(c, U_GRAD), false, &from));
  EC_TRY(wide_view(c, ec_arg_tensor(c, U_OUT), true, &to));
  int64_t item = (int64_t)ec_dtype_size(to.dtype);
  for (int64_t k = from.sizes[sizes.n]; k-- > 0 && ec_arg_tensor(c, U_GRAD)->numel;) {
    ec_view a = to, b = from;
    b.data += k * b.strides[--b.rank] * item;
    if (a.rank) {
      a.data += k * a.strides[dim] * item;
      a.sizes[dim] = count;
      if (count > 1) a.strides[dim] *= ec_arg_int(c, U_STEP);
    }
    add_view(&a, &b);
  }
  cast_to_output(c, ec_arg_tensor(c, U_OUT), &to);
  return EC_OK;
}
