/* Rows reduced to one: bags of embeddings, segments; and the gradient of an embedding. */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "core/checked.h"
#include "core/template.h"
#include "kernels/index/index.h"
#include "kernels/promote.h"

typedef struct fold {
  const void *x;         /* rows of `width` elements */
  const int64_t *rows;   /* indices of `n` rows */
  const double *weights; /* a factor per row, or NULL */
  int64_t n, width;
  ec_combine how;
  double start, divisor;
  void *acc;   /* room for `width` doubles */
  int64_t *at; /* NULL, or the row of each extreme; then the first row initialises */
  void *out;
} fold;

#define EC_TEMPLATE "kernels/index/fold.tmpl.h"
#include "core/foreach/floating.h"
#undef EC_TEMPLATE

typedef void (*fold_fn)(const fold *f);
typedef void (*add_fn)(void *to, const void *from, int64_t width, double scale);
static const fold_fn folds[EC_DTYPE_COUNT] = {EC_ROWS_FLOATING(fold)};
static const add_fn add_rows[EC_DTYPE_COUNT] = {EC_ROWS_FLOATING(add_row)};

/* Allocates a row-major tensor in scratch, to be copied to an output when complete. */
static ec_status make_scratch(ec_call *c, ec_dtype dtype, size_t rank, const int64_t *sizes,
                              ec_tensor *t) {
  EC_TRY(ec_tensor_init(t, dtype, rank, sizes, NULL, c->err));
  return ec_call_scratch(c, (size_t)t->numel, ec_dtype_size(dtype), &t->data);
}

static ec_status copy_to_output(ec_call *c, size_t out, const ec_tensor *t) {
  EC_TRY(ec_call_resize(c, out, t->rank, t->sizes));
  if (t->numel) ec_copy_cast(c, ec_arg_tensor(c, out), t);
  return EC_OK;
}

enum { BAG_SUM, BAG_MEAN, BAG_MAX };

typedef struct bags {
  const ec_tensor *weight, *factors;
  int64_t n, width, bags, mode, padding;
  int64_t *index, *offsets; /* a bag ends where the next one begins; bags + 1 offsets */
  ec_tensor out, bag_of, sizes, positions;
} bags;

static ec_status read_offsets(ec_call *c, bags *b, bool with_last) {
  const ec_tensor *offsets = ec_arg_tensor(c, 2);
  int64_t *at, count = offsets->numel;
  EC_TRY(ec_call_check_rank(c, 2, 1, 1));
  EC_TRY(ec_index_numbers(c, offsets, &at));
  if (with_last && count == 0) return ec_call_fail(c, 2, "empty, expected the last offset");
  b->bags = count - with_last;
  EC_TRY(ec_call_scratch(c, (size_t)b->bags + 1, sizeof *at, &b->offsets));
  if (count) memcpy(b->offsets, at, (size_t)(with_last ? count : b->bags) * sizeof *at);
  if (!with_last) b->offsets[b->bags] = b->n;
  if (count && at[0] != 0) return ec_call_fail(c, 2, "begins with %" PRId64 ", expected 0", at[0]);
  for (int64_t i = 0; i < b->bags; i++)
    if (b->offsets[i] < 0 || b->offsets[i] > b->offsets[i + 1] || b->offsets[i + 1] > b->n)
      return ec_call_fail(c, 2, "bag %" PRId64 " is [%" PRId64 ", %" PRId64 ") of %" PRId64
                          " indices", i, b->offsets[i], b->offsets[i + 1], b->n);
  return EC_OK;
}

/* Checks indices and offsets, whose dtypes may differ: the common dtype counts. */
static ec_status check_index_dtypes(ec_call *c) {
  ec_result_type type = {0};
  ec_dtype dtype;
  ec_result_add_tensor(&type, ec_arg_tensor(c, 1));
  ec_result_add_tensor(&type, ec_arg_tensor(c, 2));
  EC_TRY(ec_result_dtype(c, &type, &dtype));
  if (dtype == EC_INT64 || dtype == EC_INT32) return EC_OK;
  return ec_call_fail(c, 1, "indices and offsets of dtype %s, expected int64 or int32",
                      ec_dtype_name(dtype));
}

static ec_status read_bags(ec_call *c, bags *b) {
  const ec_tensor *indices = ec_arg_tensor(c, 1);
  ec_dtype dtype = ec_tensor_dtype(b->weight);
  b->n = indices->numel;
  b->mode = ec_arg_int(c, 4);
  b->padding = ec_arg_int(c, 8);
  EC_TRY(ec_call_check_dtype(c, 0, EC_SET_FLOATING));
  EC_TRY(ec_call_check_rank(c, 0, 2, 2));
  EC_TRY(ec_call_check_rank(c, 1, 1, 1));
  EC_TRY(ec_call_check_same_dtype(c, 9, 0));
  b->width = b->weight->sizes[1];
  if (b->mode < BAG_SUM || b->mode > BAG_MAX)
    return ec_call_fail(c, 4, "%" PRId64 ", expected 0, 1 or 2", b->mode);
  if (b->padding >= b->weight->sizes[0])
    return ec_call_fail(c, 8, "%" PRId64 ", but there are %" PRId64 " rows", b->padding,
                        b->weight->sizes[0]);
  if (b->factors && (b->mode != BAG_SUM || ec_tensor_dtype(b->factors) != dtype ||
                     b->factors->rank != 1 || b->factors->numel != b->n))
    return ec_call_fail(c, 6, "expected a sum, and one %s for each index", ec_dtype_name(dtype));
  EC_TRY(check_index_dtypes(c));
  EC_TRY(ec_index_numbers(c, indices, &b->index));
  EC_TRY(ec_index_check(c, 1, b->index, b->n, 0, b->weight->sizes[0], false));
  return read_offsets(c, b, ec_arg_bool(c, 7));
}

/* Reduces all bags, without padding. */
static ec_status fold_bags(ec_call *c, bags *b) {
  size_t item = ec_dtype_size(ec_tensor_dtype(b->weight));
  fold f = {.width = b->width, .how = b->mode == BAG_MAX ? EC_COMBINE_MAX : EC_COMBINE_ADD};
  int64_t *rows, *bag_of = b->bag_of.data, *count = b->sizes.data, *positions = b->positions.data;
  double *weights = NULL;
  void *x, *factors = NULL;
  EC_TRY(ec_call_packed(c, b->weight, ec_tensor_dtype(b->weight), &x));
  EC_TRY(ec_call_scratch(c, (size_t)b->n, sizeof *rows, &rows));
  EC_TRY(ec_call_scratch(c, (size_t)b->width, sizeof(double), &f.acc));
  if (b->factors) EC_TRY(ec_call_packed(c, b->factors, EC_FLOAT64, &factors));
  if (factors) EC_TRY(ec_call_scratch(c, (size_t)b->n, sizeof *weights, &weights));
  f.x = x;
  f.rows = rows;
  f.weights = weights;
  for (int64_t bag = 0; bag < b->bags; bag++) {
    f.n = 0;
    for (int64_t i = b->offsets[bag]; i < b->offsets[bag + 1]; i++) {
      bag_of[i] = bag;
      if (b->index[i] == b->padding) continue;
      if (weights) weights[f.n] = ((const double *)factors)[i];
      rows[f.n++] = b->index[i];
    }
    f.divisor = b->mode == BAG_MEAN && f.n ? (double)f.n : 1;
    f.out = (char *)b->out.data + (size_t)(bag * b->width) * item;
    if (b->mode == BAG_MAX) f.at = positions + bag * b->width;
    if (b->mode != BAG_SUM) count[bag] = f.n;
    if (b->mode == BAG_MEAN) positions[bag] = f.n;
    folds[b->weight->dtype](&f);
  }
  return EC_OK;
}

/* Returns the size of an output for gradients. It counts bags or offsets, and eager and the
 * exporter may disagree: a planned size is kept if it is one of the two. */
static int64_t planned_size(const ec_call *c, size_t o, int64_t count, int64_t otherwise) {
  const ec_tensor *out = ec_arg_tensor(c, o);
  const bool fixed = out->dynamism == EC_STATIC && out->rank == 1;
  const bool known = fixed && (out->sizes[0] == count ||
                               out->sizes[0] == ec_arg_tensor(c, 2)->numel);
  return known ? out->sizes[0] : otherwise;
}

/* Outputs: the rows; the bag of each index, unless eager omits it and the exporter knows; sizes of
 * bags (zeros for sums); positions of maxima, or the sizes again. */
static ec_status embedding_bag(ec_call *c, bool forward_only) {
  bags b = {.weight = ec_arg_tensor(c, 0), .factors = ec_arg_opt_tensor(c, 6)};
  const ec_tensor *bag_of = ec_arg_tensor(c, 10);
  EC_TRY(read_bags(c, &b));
  for (size_t o = 10; o <= 12; o++)
    EC_TRY(ec_call_check_dtype(c, o, EC_BIT(EC_INT64) | EC_BIT(EC_INT32)));
  int64_t sizes[2] = {b.bags, b.width}, none = 0;
  int64_t counted = b.mode == BAG_SUM && forward_only ? ec_arg_tensor(c, 2)->numel : b.bags;
  bool wanted = (bag_of->dynamism == EC_STATIC ? bag_of->numel : bag_of->numel_bound) > 0;
  EC_TRY(make_scratch(c, ec_tensor_dtype(b.weight), 2, sizes, &b.out));
  EC_TRY(make_scratch(c, EC_INT64, 1, &b.n, &b.bag_of));
  int64_t counts[2] = {planned_size(c, 11, b.bags, counted), planned_size(c, 12, b.bags, counted)};
  EC_TRY(make_scratch(c, EC_INT64, 1, &counts[0], &b.sizes));
  EC_TRY(make_scratch(c, EC_INT64, b.mode == BAG_MAX ? 2 : 1,
                      b.mode == BAG_MAX ? sizes : &counts[1],
                      &b.positions));
  EC_TRY(fold_bags(c, &b));
  EC_TRY(copy_to_output(c, 9, &b.out));
  if (wanted) EC_TRY(copy_to_output(c, 10, &b.bag_of));
  else EC_TRY(ec_call_resize(c, 10, 1, &none));
  EC_TRY(copy_to_output(c, 11, &b.sizes));
  return copy_to_output(c, 12, &b.positions);
}

ec_status ec_op_embedding_bag_out(ec_call *c) { return embedding_bag(c, false); }
ec_status ec_op_embedding_bag_forward_only_out(ec_call *c) { return embedding_bag(c, true); }

/* Adds every row of the gradient to the row of its index, divided by the index's frequency with
 * `scale_grad_by_freq`. */
ec_status ec_op_embedding_dense_backward_out(ec_call *c) {
  const ec_tensor *grad = ec_arg_tensor(c, 0), *indices = ec_arg_tensor(c, 1);
  int64_t rows = ec_arg_int(c, 2), padding = ec_arg_int(c, 3), n = indices->numel, *index, *count;
  int64_t sizes[2] = {rows, grad->rank ? grad->sizes[grad->rank - 1] : 0};
  ec_dtype dtype = ec_tensor_dtype(grad);
  size_t item = ec_dtype_size(dtype);
  bool fits = grad->rank == indices->rank + 1u;
  ec_tensor sum;
  void *from;
  for (size_t d = 0; fits && d < indices->rank; d++) fits = grad->sizes[d] == indices->sizes[d];
  if (!fits) return ec_call_fail(c, 0, "expected the shape of the indices followed by a row");
  EC_TRY(ec_call_check_dtype(c, 0, EC_SET_FLOATING));
  EC_TRY(ec_call_check_same_dtype(c, 5, 0));
  if (rows < 0) return ec_call_fail(c, 2, "%" PRId64 " rows", rows);
  EC_TRY(ec_index_read(c, 1, indices, 0, rows, false, &index));
  EC_TRY(ec_call_packed(c, grad, dtype, &from));
  EC_TRY(ec_call_resize(c, 5, 2, sizes));
  EC_TRY(make_scratch(c, dtype, 2, sizes, &sum));
  EC_TRY(ec_call_scratch(c, (size_t)rows, sizeof *count, &count));
  for (int64_t i = 0; i < n; i++) count[index[i]]++;
  bool scale = ec_arg_bool(c, 4);
  for (int64_t i = 0; i < n; i++) {
    if (index[i] == padding) continue;
    char *to = (char *)sum.data + (size_t)(index[i] * sizes[1]) * item;
    const char *row = (const char *)from + (size_t)(i * sizes[1]) * item;
    add_rows[dtype](to, row, sizes[1], scale ? 1.0 / (double)count[index[i]] : 1.0);
  }
  return copy_to_output(c, 5, &sum);
}

typedef struct segments {
  int64_t outer, n, count, *bounds; /* `count` segments for each of `outer` x `n` rows */
  fold f;
  bool mean, has_start;
} segments;

/* Reads the bounds of segments, count + 1 per outer row, from lengths or offsets. */
static ec_status read_bounds(ec_call *c, segments *s, size_t arg, bool all) {
  const ec_tensor *t = ec_arg_tensor(c, arg);
  bool lengths = arg == 2;
  int64_t *bounds, *b;
  EC_TRY(ec_index_copy(c, arg, t, &bounds));
  EC_TRY(ec_call_scratch(c, (size_t)t->numel + (size_t)s->outer + 1, sizeof *b, &b));
  s->bounds = b;
  for (int64_t o = 0, at = 0; o < s->outer; o++, b += s->count + 1) {
    for (int64_t i = 0; i < s->count + !lengths; i++, at++) {
      int64_t from = i ? b[i - 1] : 0;
      if (lengths && i == 0) b[0] = 0;
      if (lengths) from = b[i];
      const int64_t bound = bounds[at];
      if (lengths ? bound < 0 || bound > s->n - from : bound < from || bound > s->n)
        return ec_call_fail(c, arg, "%" PRId64 " at position %" PRId64 ", but there are %" PRId64
                            " rows", bound, at, s->n);
      if (lengths) b[i + 1] = from + bound;
      else b[i] = bound;
    }
    if (lengths && all && b[s->count] != s->n)
      return ec_call_fail(c, arg, "the sum is %" PRId64 ", expected %" PRId64, b[s->count], s->n);
  }
  return EC_OK;
}

static ec_status fold_segments(ec_call *c, segments *s, ec_dtype dtype, void *x, void *out) {
  size_t row = (size_t)s->f.width * ec_dtype_size(dtype);
  int64_t *rows;
  EC_TRY(ec_call_scratch(c, (size_t)s->n, sizeof *rows, &rows));
  EC_TRY(ec_call_scratch(c, (size_t)s->f.width, sizeof(double), &s->f.acc));
  for (int64_t i = 0; i < s->n; i++) rows[i] = i;
  s->f.out = out;
  for (int64_t o = 0; o < s->outer; o++) {
    const int64_t *b = s->bounds + o * (s->count + 1);
    s->f.x = (const char *)x + (size_t)(o * s->n) * row;
    for (int64_t i = 0; i < s->count; i++) {
      s->f.rows = rows + b[i];
      s->f.n = b[i + 1] - b[i];
      s->f.divisor = s->mean && (s->f.n || !s->has_start) ? (double)s->f.n : 1;
      folds[dtype](&s->f);
      s->f.out = (char *)s->f.out + row;
    }
  }
  return EC_OK;
}

static ec_status read_segment_reduction(ec_call *c, segments *s) {
  static const struct {
    const char *name;
    ec_combine how;
    double start;
  } names[] = {{"sum", EC_COMBINE_ADD, 0}, {"mean", EC_COMBINE_ADD, 0}, {"prod", EC_COMBINE_MUL, 1},
               {"max", EC_COMBINE_MAX, -INFINITY}, {"min", EC_COMBINE_MIN, INFINITY}};
  const char *name = ec_arg_string(c, 1);
  for (size_t i = 0; name && i < sizeof names / sizeof *names; i++) {
    if (strcmp(name, names[i].name) != 0) continue;
    s->f.how = names[i].how;
    s->mean = i == 1;
    s->has_start = !ec_arg_is_none(c, 7);
    s->f.start = s->has_start ? ec_scalar_double(ec_arg_scalar(c, 7)) : names[i].start;
    return EC_OK;
  }
  return ec_call_fail(c, 1, "unknown reduction \"%.20s\"", name ? name : "");
}

ec_status ec_op_segment_reduce_out(ec_call *c) {
  const ec_tensor *data = ec_arg_tensor(c, 0);
  size_t arg = ec_arg_is_none(c, 2) ? 4 : 2, axis;
  const ec_tensor *limits = ec_arg_opt_tensor(c, arg);
  segments s = {.outer = 1, .f = {.width = 1}};
  ec_dtype dtype = ec_tensor_dtype(data);
  int64_t sizes[EC_MAX_RANK];
  ec_tensor out;
  void *x;
  EC_TRY(ec_call_check_dtype(c, 0, EC_SET_FLOATING));
  EC_TRY(ec_call_check_same_dtype(c, 8, 0));
  EC_TRY(read_segment_reduction(c, &s));
  EC_TRY(ec_call_wrap_dim(c, ec_arg_int(c, 5), data->rank, &axis));
  bool fits = limits && data->rank && limits->rank == axis + 1;
  for (size_t d = 0; fits && d < axis; d++) fits = limits->sizes[d] == data->sizes[d];
  if (!fits) return ec_call_fail(c, arg, "expected one dimension for each of data up to the axis");
  s.n = data->sizes[axis];
  s.count = limits->sizes[axis] - (arg == 4);
  if (s.count < 0) return ec_call_fail(c, arg, "empty, expected at least one offset");
  memcpy(sizes, data->sizes, sizeof sizes);
  sizes[axis] = s.count;
  if (!ec_numel(sizes, axis, &s.outer) ||
      !ec_numel(sizes + axis + 1, data->rank - axis - 1, &s.f.width))
    return ec_call_fail(c, 0, "its shape overflows");
  if (limits->numel) EC_TRY(read_bounds(c, &s, arg, !ec_arg_bool(c, 6)));
  else if (data->numel) return ec_call_fail(c, arg, "no segments for %" PRId64 " rows", s.n);
  EC_TRY(ec_call_packed(c, data, dtype, &x));
  EC_TRY(ec_call_resize(c, 8, data->rank, sizes));
  EC_TRY(make_scratch(c, dtype, data->rank, sizes, &out));
  if (out.numel) EC_TRY(fold_segments(c, &s, dtype, x, out.data));
  return copy_to_output(c, 8, &out);
}
