/* Arguments, output sizes and windows of pooling. */
#include "kernels/pool/pool.h"

#include <inttypes.h>

#include "core/alloc.h"
#include "core/checked.h"
#include "kernels/iterate.h"

static ec_pool_axis *first_axis(ec_pool *p) { return &p->axis[EC_POOL_AXES - p->axes]; }

/* Reads one number for all axes, or one per axis. An empty list sets `*given` to false. */
static ec_status read_list(ec_call *c, size_t i, size_t axes, int64_t least, int64_t *values,
                           bool *is_set) {
  ec_ints list;
  EC_TRY(ec_arg_ints(c, i, &list));
  *is_set = list.n > 0;
  if (!*is_set) return EC_OK;
  if (list.n != 1 && list.n != axes)
    return ec_call_fail(c, i, "%zu numbers, expected 1%s", list.n,
                        axes == 1 ? "" : axes == 2 ? " or 2" : " or 3");
  for (size_t d = 0; d < axes; d++) {
    values[d] = list.v[list.n == axes ? d : 0];
    if (values[d] >= least) continue;
    char text[EC_SHAPE_TEXT];
    return ec_call_fail(c, i, "found %s, expected %s numbers",
                        ec_shape_text(list.v, list.n, text, sizeof text),
                        least ? "positive" : "non-negative");
  }
  return EC_OK;
}

static ec_status check_dtypes(ec_call *c, const ec_pool_args *args) {
  EC_TRY(ec_call_check_dtype(c, args->self, c->op->dtypes));
  EC_TRY(ec_call_check_same_dtype(c, args->out, args->self));
  if (args->samples) EC_TRY(ec_call_check_same_dtype(c, args->samples, args->self));
  return args->indices ? ec_call_check_dtype(c, args->indices, EC_BIT(EC_INT64)) : EC_OK;
}

ec_status ec_pool_input(ec_call *c, const ec_pool_args *args, ec_pool *p) {
  const ec_tensor *t = ec_arg_tensor(c, args->self);
  *p = (ec_pool){.dtype = ec_tensor_dtype(t), .axes = args->axes};
  EC_TRY(check_dtypes(c, args));
  EC_TRY(ec_call_check_rank(c, args->self, args->axes + 1, args->axes + 2));
  size_t lead = t->rank - args->axes;
  p->batch = lead == 2 ? t->sizes[0] : 1;
  p->channels = t->sizes[lead - 1];
  for (size_t d = 0; d < EC_POOL_AXES; d++)
    p->axis[d] = (ec_pool_axis){.in = 1, .out = 1, .kernel = 1, .stride = 1, .dilation = 1};
  for (size_t d = 0; d < args->axes; d++) first_axis(p)[d].in = t->sizes[lead + d];
  bool any_channels = !args->kernel && !args->indices && args->axes < 3; /* as in eager */
  for (size_t d = args->kernel ? lead - 1 : any_channels ? lead : 1; d < t->rank; d++) {
    char text[EC_SHAPE_TEXT];
    if (t->sizes[d] == 0)
      return ec_call_fail(c, args->self, "shape %s, expected no 0 except for the batch",
                          ec_shape_text(t->sizes, t->rank, text, sizeof text));
  }
  return EC_OK;
}

void ec_pool_strides(const ec_pool *p, const ec_tensor *t, int64_t strides[EC_POOL_RANK]) {
  size_t lead = t->rank - p->axes;
  for (size_t d = 0; d < EC_POOL_RANK; d++) strides[d] = 0;
  if (lead == 2) strides[0] = t->strides[0];
  strides[1] = t->strides[lead - 1];
  for (size_t d = 0; d < p->axes; d++)
    strides[EC_POOL_RANK - p->axes + d] = t->strides[lead + d];
}

void ec_pool_bind(ec_call *c, const ec_pool_args *args, ec_pool *p) {
  p->from = ec_arg_tensor(c, args->self)->data;
  p->to = ec_arg_tensor(c, args->out)->data;
  ec_pool_strides(p, ec_arg_tensor(c, args->self), p->in_stride);
  ec_pool_strides(p, ec_arg_tensor(c, args->out), p->out_stride);
  if (!args->indices) return;
  p->indices = ec_arg_tensor(c, args->indices)->data;
  ec_pool_strides(p, ec_arg_tensor(c, args->indices), p->index_stride);
}

/* Computes the number of windows. Returns false on int64 overflow. */
static bool count_windows(ec_pool_axis *a, bool ceil_mode) {
  int64_t reach, size;
  if (!ec_mul_i64(a->kernel - 1, a->dilation, &reach) || !ec_add_i64(reach, 1, &reach) ||
      a->padding > reach / 2 || !ec_mul_i64(a->padding, 2, &size) ||
      !ec_add_i64(size, a->in, &size) || !ec_add_i64(size, a->stride, &size))
    return false;
  size -= a->stride; /* the sum with the stride fits, so nothing below overflows */
  size -= reach;
  if (size < 0 && !(ceil_mode && size > -a->stride)) return false;
  a->out = size < 0 ? 1 : size / a->stride + 1;
  if (ceil_mode && size > 0 && size % a->stride) a->out++;
  if (ceil_mode && (a->out - 1) * a->stride >= a->in + a->padding) a->out--;
  return a->out > 0;
}

ec_status ec_pool_read(ec_call *c, const ec_pool_args *args, ec_pool *p) {
  size_t n = args->axes;
  int64_t kernel[EC_POOL_AXES], stride[EC_POOL_AXES], padding[EC_POOL_AXES] = {0, 0, 0},
      dilation[EC_POOL_AXES] = {1, 1, 1};
  bool is_set;
  EC_TRY(read_list(c, args->kernel, n, 1, kernel, &is_set));
  if (!is_set) return ec_call_fail(c, args->kernel, "found (), expected 1 to %zu numbers", n);
  EC_TRY(read_list(c, args->stride, n, 1, stride, &is_set));
  EC_TRY(read_list(c, args->padding, n, 0, padding, &(bool){false}));
  if (args->dilation) EC_TRY(read_list(c, args->dilation, n, 1, dilation, &(bool){false}));
  bool ceil_mode = ec_arg_bool(c, args->ceil_mode);
  for (size_t d = 0; d < n; d++) {
    ec_pool_axis *a = &first_axis(p)[d];
    a->kernel = kernel[d];
    a->stride = is_set ? stride[d] : kernel[d];
    a->padding = padding[d];
    a->dilation = dilation[d];
    if (count_windows(a, ceil_mode)) continue;
    return ec_call_fail(c, args->kernel, "size %" PRId64 " with padding %" PRId64
                        ", dilation %" PRId64 ", stride %" PRId64
                        " expected to fit an input of size %" PRId64
                        ", padding at most half of it",
                        a->kernel, a->padding, a->dilation, a->stride, a->in);
  }
  if (!args->divisor || ec_arg_is_none(c, args->divisor)) return EC_OK;
  p->divisor = ec_arg_int(c, args->divisor);
  if (p->divisor) return EC_OK;
  return ec_call_fail(c, args->divisor, "found 0, expected another number or None");
}

ec_status ec_pool_read_size(ec_call *c, const ec_pool_args *args, ec_pool *p) {
  ec_ints size;
  EC_TRY(ec_arg_ints(c, args->size, &size));
  bool fits = size.n == args->axes;
  for (size_t d = 0; fits && d < size.n; d++) {
    fits = size.v[d] >= 0;
    first_axis(p)[d].out = size.v[d];
  }
  char text[EC_SHAPE_TEXT];
  if (fits) return EC_OK;
  return ec_call_fail(c, args->size, "found %s, expected %zu numbers, not negative",
                      ec_shape_text(size.v, size.n, text, sizeof text), args->axes);
}

size_t ec_pool_sizes(const ec_call *c, const ec_pool_args *args, const ec_pool *p,
                     int64_t *sizes) {
  size_t rank = ec_arg_tensor(c, args->self)->rank, lead = rank - args->axes;
  if (lead == 2) sizes[0] = p->batch;
  sizes[lead - 1] = p->channels;
  for (size_t d = 0; d < args->axes; d++)
    sizes[lead + d] = p->axis[EC_POOL_AXES - args->axes + d].out;
  return rank;
}

ec_status ec_pool_resize(ec_call *c, const ec_pool_args *args, const ec_pool *p, size_t i) {
  int64_t sizes[EC_POOL_RANK];
  size_t rank = ec_pool_sizes(c, args, p, sizes);
  return ec_call_resize(c, i, rank, sizes);
}

/* Returns the window of output `o`. */
static ec_window window(const ec_pool_axis *a, int64_t o, bool include_padding) {
  int64_t start = o * a->stride - a->padding, first = start;
  if (first < 0) first += ((-first - 1) / a->dilation + 1) * a->dilation;
  int64_t skipped = (first - start) / a->dilation, left = a->kernel - skipped;
  int64_t inside = first < a->in ? (a->in - 1 - first) / a->dilation + 1 : 0;
  ec_window w = {first, ec_max_i64(0, ec_min_i64(left, inside)), a->dilation, 0};
  if (w.count <= 1) w.step = 1; /* a larger one stays below the input's size */
  w.first = ec_min_i64(first, a->in); /* an empty window may start anywhere */
  int64_t end = ec_min_i64(start + a->kernel, a->in + a->padding);
  w.size = include_padding ? end - start : w.count;
  return w;
}

/* Computes windows that cover the input evenly: output o of n reads floor(o in / n) to ceil((o + 1)
 * in / n), by accumulating in / n and its remainder. */
static void adaptive_windows(ec_pool_axis *a) {
  if (a->out == 0) return;
  int64_t whole = a->in / a->out, part = a->in % a->out, next = 0, rest = 0;
  for (int64_t o = 0; o < a->out; o++) {
    int64_t first = next;
    rest += part;
    next += whole + (rest >= a->out);
    if (rest >= a->out) rest -= a->out;
    int64_t size = next + (rest > 0) - first;
    a->windows[o] = (ec_window){first, size, 1, size};
  }
}

ec_status ec_pool_windows(ec_call *c, const ec_pool_args *args, ec_pool *p) {
  bool include_padding = args->include_pad && ec_arg_bool(c, args->include_pad);
  for (size_t d = 0; d < EC_POOL_AXES; d++) {
    ec_pool_axis *a = &p->axis[d];
    EC_TRY(ec_call_scratch(c, (size_t)a->out, sizeof *a->windows, &a->windows));
    if (!args->kernel) adaptive_windows(a);
    for (int64_t o = 0; args->kernel && o < a->out; o++)
      a->windows[o] = window(a, o, include_padding);
  }
  return EC_OK;
}

/* ---- pieces ------------------------------------------------------------------------------ */

/* A run that is split along one dimension of the outputs: batch, channel, depth, height. */
typedef struct cut {
  const ec_pool *pool;
  ec_pool_fn fn;
  size_t dim, pieces, room;
  char *scratch;
} cut;

enum { BATCH, CHANNEL, DEPTH, CUT_DIMS = DEPTH + 2 };

static int64_t *dim_extent(ec_pool *p, size_t dim) {
  return dim == BATCH ? &p->batch : dim == CHANNEL ? &p->channels : &p->axis[dim - DEPTH].out;
}

static void run_pieces(void *user, size_t begin, size_t end) {
  const cut *w = user;
  const int64_t item = (int64_t)ec_dtype_size(w->pool->dtype), pieces = (int64_t)w->pieces;
  for (size_t piece = begin; piece < end; piece++) {
    ec_pool p = *w->pool;
    int64_t all = *dim_extent(&p, w->dim), from = ec_share(all, (int64_t)piece, pieces);
    *dim_extent(&p, w->dim) = ec_share(all, (int64_t)piece + 1, pieces) - from;
    if (w->dim < DEPTH) p.from = (const char *)p.from + from * p.in_stride[w->dim] * item;
    else p.axis[w->dim - DEPTH].windows += from;
    p.to = (char *)p.to + from * p.out_stride[w->dim] * item;
    if (p.indices) p.indices += from * p.index_stride[w->dim];
    w->fn(&p, w->scratch + piece * w->room);
  }
}

/* Returns the number of elements that the windows read, saturating. */
static double cost_of(const ec_pool *p) {
  double cost = (double)p->batch * (double)p->channels;
  for (size_t d = 0; d < EC_POOL_AXES; d++) {
    double reads = 0;
    for (int64_t o = 0; o < p->axis[d].out; o++) reads += (double)p->axis[d].windows[o].count;
    cost *= reads;
  }
  return cost;
}

ec_status ec_pool_run(ec_call *c, const ec_pool *p, ec_pool_fn fn, bool side_by_side,
                      size_t scratch) {
  enum { PIECE_COST = 1 << 14 };
  cut w = {.pool = p, .fn = fn, .pieces = 1};
  ec_pool whole = *p;
  size_t most = c->threads ? ec_threads_count(c->threads) * EC_ITER_PIECES : 1;
  double worth = most > 1 ? cost_of(p) / PIECE_COST : 1;
  if (worth < (double)most) most = worth < 1 ? 1 : (size_t)worth;
  for (size_t d = 0; d < CUT_DIMS && w.pieces < most; d++) { /* the first that is long enough */
    if (d == CHANNEL && side_by_side) continue;
    size_t units = (size_t)*dim_extent(&whole, d);
    if (units > w.pieces) w.dim = d, w.pieces = units < most ? units : most;
  }
  w.room = (scratch + EC_ALIGN - 1) / EC_ALIGN * EC_ALIGN; /* threads do not share cache lines */
  if (scratch) EC_TRY(ec_call_scratch(c, w.pieces, w.room, &w.scratch));
  ec_parallel_for(c, w.pieces, 1, run_pieces, &w);
  return EC_OK;
}
