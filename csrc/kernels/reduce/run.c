/* Runs a plan: orders and merges dimensions, then walks blocks of results. */
#include <string.h>

#include "kernels/copy.h"
#include "kernels/reduce/reduce.h"

/* Strides of one output by input dimension; 0 for reduced ones. */
static void spread_strides(const ec_reduce_plan *p, const ec_tensor *out, int64_t *strides) {
  size_t o = 0;
  for (size_t d = 0; d < p->in.rank; d++) {
    bool reduced = p->mask >> d & 1u;
    strides[d] = reduced || !out ? 0 : out->strides[o];
    if (!reduced || p->keepdim) o++;
  }
}

/* Dimensions of the mask's kind, larger than 1, in memory order unless `ordered`. */
static size_t pick_dims(const ec_reduce_plan *p, bool reduced, bool ordered, size_t *dims) {
  size_t n = 0;
  for (size_t d = 0; d < p->in.rank; d++) {
    if ((bool)(p->mask >> d & 1u) != reduced || p->in.sizes[d] == 1) continue;
    size_t at = n++;
    for (; !ordered && at > 0 && p->in.strides[dims[at - 1]] < p->in.strides[d]; at--)
      dims[at] = dims[at - 1];
    dims[at] = d;
  }
  return n;
}

static void merge_reduced(ec_reduce_plan *p) {
  size_t dims[EC_MAX_RANK], n = pick_dims(p, true, p->ordered, dims);
  p->reduced = 0;
  for (size_t i = 0; i < n; i++) {
    int64_t size = p->in.sizes[dims[i]], stride = p->in.strides[dims[i]];
    size_t last = p->reduced;
    if (last && p->red_in[last - 1] == stride * size) {
      p->red_size[last - 1] *= size;
      p->red_in[last - 1] = stride;
    } else {
      p->red_size[last] = size;
      p->red_in[last] = stride;
      p->reduced++;
    }
  }
}

static void merge_kept(ec_reduce_plan *p, const int64_t out0[], const int64_t out1[]) {
  size_t dims[EC_MAX_RANK], n = pick_dims(p, false, false, dims);
  p->kept = 0;
  for (size_t i = 0; i < n; i++) {
    size_t d = dims[i], last = p->kept;
    int64_t size = p->in.sizes[d];
    bool merge = last && p->kept_in[last - 1] == p->in.strides[d] * size &&
                 p->kept_out[0][last - 1] == out0[d] * size &&
                 p->kept_out[1][last - 1] == out1[d] * size;
    size_t at = merge ? last - 1 : p->kept++;
    p->kept_size[at] = merge ? p->kept_size[at] * size : size;
    p->kept_in[at] = p->in.strides[d];
    p->kept_out[0][at] = out0[d];
    p->kept_out[1][at] = out1[d];
  }
}

/* Folds every reduced element into the block's accumulators. */
static void fold(const ec_reduce_plan *p, ec_reduce_step step, ec_reduce_acc acc,
                 ec_reduce_block block) {
  size_t outer = p->reduced ? p->reduced - 1 : 0;
  size_t item = ec_dtype_size(ec_tensor_dtype(&p->in));
  int64_t index[EC_MAX_RANK] = {0};
  const char *x = block.x;
  int64_t at = 0;
  for (;;) {
    block.x = x + at * (int64_t)item;
    step(acc, &block);
    block.base += block.n;
    size_t d = outer;
    for (; d > 0; d--) { /* the odometer of the outer reduced dimensions */
      at += p->red_in[d - 1];
      if (++index[d - 1] < p->red_size[d - 1]) break;
      at -= p->red_in[d - 1] * p->red_size[d - 1];
      index[d - 1] = 0;
    }
    if (d == 0) return;
  }
}

/* All results of the innermost kept dimension. */
static void run_line(const ec_reduce_plan *p, const ec_reduce_loops *loops, ec_reduce_block block,
                     ec_reduce_dst dst, const size_t item_out[2]) {
  _Alignas(64) char a[EC_REDUCE_BLOCK * EC_REDUCE_ACC_BYTES], b[sizeof a];
  ec_reduce_acc acc = {a, b};
  size_t item = ec_dtype_size(ec_tensor_dtype(&p->in));
  for (int64_t left = block.k; left > 0; left -= block.k) {
    block.k = left < EC_REDUCE_BLOCK ? left : EC_REDUCE_BLOCK;
    loops->init(acc, block.k);
    if (p->count) fold(p, loops->step, acc, block);
    if (loops->turn) loops->turn(acc, block.k, (double)p->count);
    if (loops->turn && p->count) fold(p, loops->again, acc, block);
    loops->finish(acc, block.k, &dst);
    block.x += block.k * block.ks * (int64_t)item;
    for (size_t o = 0; o < 2; o++)
      if (dst.out[o]) dst.out[o] += block.k * dst.stride[o] * (int64_t)item_out[o];
  }
}

static void run_lines(const ec_reduce_plan *p, const ec_reduce_loops *loops, ec_reduce_block block,
                      ec_reduce_dst dst, const size_t item_out[2]) {
  size_t outer = p->kept ? p->kept - 1 : 0;
  size_t item = ec_dtype_size(ec_tensor_dtype(&p->in));
  int64_t index[EC_MAX_RANK] = {0}, at = 0, to[2] = {0, 0};
  for (;;) {
    ec_reduce_block line = block;
    ec_reduce_dst line_dst = dst;
    line.x += at * (int64_t)item;
    for (size_t o = 0; o < 2; o++)
      if (dst.out[o]) line_dst.out[o] += to[o] * (int64_t)item_out[o];
    run_line(p, loops, line, line_dst, item_out);
    size_t d = outer;
    for (; d > 0; d--) {
      int64_t size = p->kept_size[d - 1];
      bool wrap = ++index[d - 1] == size;
      int64_t steps = wrap ? 1 - size : 1;
      at += p->kept_in[d - 1] * steps;
      for (size_t o = 0; o < 2; o++) to[o] += p->kept_out[o][d - 1] * steps;
      if (!wrap) break;
      index[d - 1] = 0;
    }
    if (d == 0) return;
  }
}

void ec_reduce_run(ec_reduce_plan *p, const ec_call *c, const ec_tensor *in,
                   ec_tensor *const out[2], const ec_reduce_loops *loops, double divisor) {
  int64_t strides[2][EC_MAX_RANK];
  ec_reduce_dst dst = {.divisor = divisor};
  size_t item_out[2] = {0, 0};
  for (size_t o = 0; o < 2; o++) {
    spread_strides(p, out[o], strides[o]);
    if (!out[o]) continue;
    dst.out[o] = out[o]->data;
    item_out[o] = ec_dtype_size(ec_tensor_dtype(out[o]));
  }
  p->in.data = in->data; /* an unbound output that is the input too may have moved */
  merge_reduced(p);
  merge_kept(p, strides[0], strides[1]);
  for (size_t i = 0; i < p->kept; i++)
    if (p->kept_size[i] == 0) return;
  if (!p->count) memset(p->kept_in, 0, sizeof p->kept_in); /* no elements: strides mean nothing */
  size_t k = p->kept, n = p->reduced;
  ec_reduce_block block = {.x = p->in.data, .k = 1, .n = 1, .plain = c->reference};
  if (n) block.n = p->red_size[n - 1], block.ns = p->red_in[n - 1];
  if (k) block.k = p->kept_size[k - 1], block.ks = p->kept_in[k - 1];
  for (size_t o = 0; k && o < 2; o++) dst.stride[o] = p->kept_out[o][k - 1];
  run_lines(p, loops, block, dst, item_out);
}

ec_status ec_reduce_cast(ec_call *c, ec_reduce_plan *p, ec_dtype dtype, const ec_tensor **in) {
  ec_tensor *copy;
  if (ec_tensor_dtype(&p->in) == dtype) return EC_OK;
  EC_TRY(ec_call_scratch(c, 1, sizeof *copy, &copy));
  *copy = p->in;
  copy->dtype = (uint8_t)dtype;
  EC_TRY(ec_call_scratch(c, (size_t)p->in.numel, ec_dtype_size(dtype), &copy->data));
  copy->capacity = ec_tensor_nbytes(copy);
  size_t from = ec_dtype_size(ec_tensor_dtype(&p->in)), to = ec_dtype_size(dtype);
  ec_cast_fn cast = ec_cast(dtype, ec_tensor_dtype(&p->in));
  if (p->in.numel)
    cast(p->in.numel, copy->data, (int64_t)to, (*in)->data, (int64_t)from); /* dense: one walk */
  p->in = *copy;
  *in = copy;
  return EC_OK;
}
