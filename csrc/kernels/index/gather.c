/* One index per element along one dimension: gather, scatter and scatter with a reduction. */
#include <inttypes.h>
#include <stdatomic.h>
#include <string.h>

#include "core/checked.h"
#include "core/simd.h"
#include "kernels/index/index.h"
#include "kernels/pointwise/elementwise.h"

enum { GATHER_BLOCK = 512, COST = 4 /* of an element, relative to a copied one */ };

/* Returns a 0-d tensor as a 1-d tensor of one element, others unchanged. */
static ec_tensor at_least_1d(const ec_tensor *t) {
  ec_tensor out = *t;
  if (t->rank) return out;
  out.rank = 1;
  out.sizes[0] = out.strides[0] = 1;
  out.dim_order[0] = 0;
  return out;
}

/* Checks that the index tensor is at most as large as another one, except in dimension `except`. */
static ec_status check_fits(ec_call *c, size_t arg, const ec_tensor *index, const ec_tensor *other,
                            size_t except) {
  char actual[EC_SHAPE_TEXT], limit[EC_SHAPE_TEXT];
  bool fits = index->rank == other->rank;
  for (size_t d = 0; fits && d < index->rank; d++)
    fits = d == except || index->sizes[d] <= other->sizes[d];
  if (fits) return EC_OK;
  return ec_call_fail(c, arg, "shape %s is larger than shape %s",
                      ec_shape_text(index->sizes, index->rank, actual, sizeof actual),
                      ec_shape_text(other->sizes, other->rank, limit, sizeof limit));
}

/* A walk: `indexed` is looked up along `dim`, `other` is traversed with the index tensor (argument
 * 2). */
typedef struct walk {
  ec_tensor indexed, index;
  char *other;
  const int64_t *other_strides;
  size_t dim;
  bool write; /* true: the indexed tensor is written */
  ec_indexed_fn fn;
} walk;

/* A run: operand 0 is the other side, 1 the indexed one, 2 the index. */
typedef struct run_of {
  ec_call *call;
  const walk *walk;
  ec_cast_fn read;
  int64_t step; /* bytes between positions of `dim` */
  atomic_bool failed;
} run_of;

/* True if all are in [0, size): neither an index nor what is left of the size has a sign. */
EC_CLONES static bool are_below(const int64_t *at, int64_t n, int64_t size) {
  const uint64_t last = (uint64_t)size - 1;
  uint64_t signs = 0;
  for (int64_t i = 0; i < n; i++) signs |= (uint64_t)at[i] | (last - (uint64_t)at[i]);
  return signs >> 63 == 0;
}

/* Reads n adjacent elements of 4 bytes. Loads of single elements: vectors of them are slower. */
static void gather_words(uint32_t *to, const char *from, int64_t step, const int64_t *at,
                         int64_t n) {
  const uint32_t *x = (const uint32_t *)(const void *)from;
  for (int64_t i = 0; step == sizeof *x && i < n; i++) to[i] = x[at[i]];
  for (int64_t i = 0; step != sizeof *x && i < n; i++)
    to[i] = *(const uint32_t *)(const void *)(from + at[i] * step);
}

/* True if the line has been read: adjacent elements of 4 bytes and int64 indices, all good. */
static bool read_words(const run_of *r, const ec_iter *it) {
  const walk *w = r->walk;
  const int64_t size = w->indexed.sizes[w->dim];
  if (w->write || ec_dtype_size(ec_tensor_dtype(&w->indexed)) != 4 || it->step[0] != 4 ||
      it->step[1] != 0 || it->step[2] != 8 || w->index.dtype != EC_INT64 || size == 0)
    return false;
  const int64_t *at = (const int64_t *)(const void *)it->at[2];
  if (!are_below(at, it->count, size)) return false;
  gather_words((uint32_t *)(void *)it->at[0], it->at[1], r->step, at, it->count);
  return true;
}

static ec_status run_line(const run_of *r, const ec_iter *it) {
  const walk *w = r->walk;
  if (read_words(r, it)) return EC_OK;
  const size_t dst = w->write, src = !w->write;
  int64_t block[GATHER_BLOCK];
  ec_indexed loop = {.at = block, .dst_step = it->step[dst], .src_step = it->step[src]};
  *(w->write ? &loop.dst_at : &loop.src_at) = r->step;
  for (int64_t i = 0; i < it->count; i += loop.n) {
    loop.n = ec_min_i64(it->count - i, GATHER_BLOCK);
    r->read(loop.n, (char *)block, sizeof *block, it->at[2] + i * it->step[2], it->step[2]);
    EC_TRY(ec_index_check(r->call, 2, block, loop.n, w->dim, w->indexed.sizes[w->dim], false));
    loop.dst = it->at[dst] + i * it->step[dst];
    loop.src = it->at[src] + i * it->step[src];
    w->fn(&loop);
  }
  return EC_OK;
}

static ec_status run_lines(const run_of *r, ec_iter *it) {
  do EC_TRY(run_line(r, it));
  while (ec_iter_next(it));
  return EC_OK;
}

static void run_piece(void *user, ec_iter *it, size_t piece) {
  run_of *r = user;
  (void)piece;
  if (run_lines(r, it) != EC_OK) r->failed = true;
}

/* Runs a walk. Writes to the indexed side are ordered; reads from it are parallel. */
static ec_status run_walk(ec_call *c, const walk *w) {
  const size_t item = ec_dtype_size(ec_tensor_dtype(&w->indexed)), rank = w->index.rank;
  int64_t strides[EC_MAX_RANK];
  ec_call silent = *c;
  silent.record = NULL;
  /* the step wraps around only for a tensor without elements, whose indices are all out of range */
  run_of r = {.call = c, .walk = w, .read = ec_cast(EC_INT64, ec_tensor_dtype(&w->index)),
              .step = (int64_t)((uint64_t)w->indexed.strides[w->dim] * item)};
  ec_iter it;
  memcpy(strides, w->indexed.strides, sizeof strides);
  strides[w->dim] = 0;
  ec_iter_init(&it, rank, w->index.sizes);
  ec_iter_add(&it, w->other, item, rank, w->index.sizes, w->other_strides);
  ec_iter_add(&it, w->indexed.data, item, rank, w->index.sizes, strides);
  ec_iter_tensor(&it, &w->index);
  if (!ec_iter_start(&it)) return EC_OK;
  size_t pieces = w->write ? 1 : ec_iter_pieces(c, &it, COST);
  if (pieces == 1) return run_lines(&r, &it);
  silent.err = NULL; /* shared by threads; a bad index is then searched again, in order */
  r.call = &silent;
  ec_iter_run(c, &it, pieces, run_piece, &r);
  r.call = c;
  return r.failed ? run_lines(&r, &it) : EC_OK;
}

static ec_status check_index(ec_call *c, bool empty_too) {
  /* of any dtype, as in eager PyTorch */
  if (!empty_too && ec_arg_tensor(c, 2)->numel == 0) return EC_OK;
  return ec_call_check_dtype(c, 2, EC_BIT(EC_INT64) | EC_BIT(EC_INT32));
}

ec_status ec_op_gather_out(ec_call *c) {
  const ec_tensor *self = ec_arg_tensor(c, 0), *index = ec_arg_tensor(c, 2);
  ec_tensor *out = ec_arg_tensor(c, 4);
  walk w = {.indexed = at_least_1d(self), .index = at_least_1d(index)};
  EC_TRY(check_index(c, false));
  EC_TRY(ec_call_wrap_dim(c, ec_arg_int(c, 1), self->rank, &w.dim));
  EC_TRY(ec_call_check_dtype(c, 4, EC_BIT(self->dtype)));
  if (index->numel) EC_TRY(check_fits(c, 2, &w.index, &w.indexed, w.dim));
  EC_TRY(ec_call_resize(c, 4, index->rank, index->sizes));
  if (w.index.numel == 0) return EC_OK;
  ec_tensor to = at_least_1d(out);
  w.indexed.data = self->data;
  w.index.data = index->data;
  w.other = to.data;
  w.other_strides = to.strides;
  w.fn = ec_indexed_move(ec_tensor_dtype(self));
  return run_walk(c, &w);
}

/* The source of a scatter, and the way of writing. */
typedef struct scattering {
  size_t out;           /* the output argument, first set to self */
  const ec_tensor *src; /* NULL: the single element at `value` */
  char *value;
  ec_combine how;
  bool mean, without_self; /* existing elements are ignored */
  bool once;               /* float16 and bfloat16 accumulate in float32 and round once */
} scattering;

static const int64_t still[EC_MAX_RANK];

/* Writes one element to every position of the walk. */
static ec_status run_element(ec_call *c, const walk *w, char *element, ec_indexed_fn fn) {
  walk one = *w;
  one.other = element;
  one.other_strides = still;
  one.fn = fn;
  return run_walk(c, &one);
}

/* Divides by the number of elements combined at each position. */
static ec_status divide_by_counts(ec_call *c, const walk *w, ec_tensor *out, bool without_self) {
  walk counted = *w;
  int64_t one = 1, *counts, n = out->numel;
  EC_TRY(ec_call_scratch(c, (size_t)n, sizeof *counts, &counts));
  for (int64_t i = 0; i < n; i++) counts[i] = !without_self;
  counted.indexed.dtype = EC_INT64;
  counted.indexed.data = counts;
  ec_indexed_fn add = ec_indexed_combine(EC_INT64, EC_COMBINE_ADD);
  EC_TRY(run_element(c, &counted, (char *)&one, add));
  ec_divide_by_counts(out, counts);
  return EC_OK;
}

/* Chooses the accumulator: `out` itself, or its numbers in float32. */
static ec_status accumulate_in(ec_call *c, const scattering *s, const ec_tensor *out,
                               ec_tensor *sums) {
  const bool combines = s->how == EC_COMBINE_ADD || s->how == EC_COMBINE_MUL;
  *sums = *out;
  if (!s->once || !combines || !ec_dtype_in(ec_tensor_dtype(out), EC_SET_HALF)) return EC_OK;
  return ec_call_like(c, out, EC_FLOAT32, sums);
}

/* Reads the source elements in the dtype of `sums`. */
static ec_status read_source(ec_call *c, const scattering *s, const ec_tensor *sums, walk *w,
                             char *value) {
  const ec_dtype from = ec_tensor_dtype(ec_arg_tensor(c, 0)), to = ec_tensor_dtype(sums);
  ec_tensor source;
  w->other = s->src ? s->src->data : s->value;
  if (from == to) return EC_OK;
  if (s->src) {
    EC_TRY(ec_call_like(c, s->src, to, &source));
    ec_copy_cast(c, &source, s->src);
  } else {
    ec_cast(to, from)(1, value, 0, s->value, 0);
  }
  w->other = s->src ? source.data : value;
  return EC_OK;
}

static ec_status scatter_along(ec_call *c, const scattering *s, const walk *walked,
                               const int64_t *strides) {
  const ec_tensor *self = ec_arg_tensor(c, 0);
  ec_tensor *out = ec_arg_tensor(c, s->out), sums;
  ec_dtype dtype = ec_tensor_dtype(out);
  _Alignas(16) char identity[16], value[16];
  walk w = *walked;
  if (s->mean && dtype == EC_BOOL) return ec_call_fail(c, 0, "the mean of bool is not defined");
  if (!ec_indexed_combine(dtype, s->how) && w.index.numel)
    return ec_call_fail(c, 0, "%s is not ordered", ec_dtype_name(dtype));
  EC_TRY(ec_call_resize(c, s->out, self->rank, self->sizes));
  EC_TRY(accumulate_in(c, s, out, &sums));
  ec_copy_cast(c, &sums, self);
  if (w.index.numel == 0 && sums.data != out->data) ec_copy_cast(c, out, self);
  if (w.index.numel == 0) return EC_OK;
  dtype = ec_tensor_dtype(&sums);
  w.write = true;
  w.fn = ec_indexed_combine(dtype, s->how);
  w.indexed = at_least_1d(&sums);
  w.index.data = ec_arg_tensor(c, 2)->data;
  if (s->without_self) {
    ec_combine_identity(dtype, s->how, identity);
    EC_TRY(run_element(c, &w, identity, ec_indexed_move(dtype)));
  }
  EC_TRY(read_source(c, s, &sums, &w, value));
  w.other_strides = strides;
  EC_TRY(run_walk(c, &w));
  if (sums.data != out->data) ec_copy_cast(c, out, &sums);
  return s->mean ? divide_by_counts(c, &w, out, s->without_self) : EC_OK;
}

static ec_status run_scatter(ec_call *c, scattering s) {
  const ec_tensor *self = ec_arg_tensor(c, 0), *index = ec_arg_tensor(c, 2);
  ec_tensor source = {0};
  walk w = {.indexed = at_least_1d(self), .index = at_least_1d(index)};
  s.once = true;
  EC_TRY(check_index(c, false));
  EC_TRY(ec_call_wrap_dim(c, ec_arg_int(c, 1), self->rank, &w.dim));
  EC_TRY(ec_call_check_dtype(c, s.out, EC_BIT(self->dtype)));
  if (s.src) {
    EC_TRY(ec_call_check_dtype(c, 3, EC_BIT(self->dtype)));
    source = at_least_1d(s.src);
  }
  if (index->numel) EC_TRY(check_fits(c, 2, &w.index, &w.indexed, w.dim));
  if (index->numel && s.src) EC_TRY(check_fits(c, 2, &w.index, &source, SIZE_MAX));
  return scatter_along(c, &s, &w, s.src ? source.strides : still);
}

static ec_status scatter_value(ec_call *c, size_t out, ec_combine how) {
  const ec_dtype dtype = ec_tensor_dtype(ec_arg_tensor(c, 0));
  _Alignas(16) char value[16];
  if (ec_arg_tensor(c, 2)->numel) EC_TRY(ec_call_check_scalar(c, 3, dtype));
  ec_cast_scalar(dtype, ec_arg_scalar(c, 3), value);
  return run_scatter(c, (scattering){.out = out, .value = value, .how = how});
}

static ec_status scatter_source(ec_call *c, size_t out, ec_combine how) {
  return run_scatter(c, (scattering){.out = out, .src = ec_arg_tensor(c, 3), .how = how});
}

ec_status ec_op_scatter_src_out(ec_call *c) { return scatter_source(c, 4, EC_COMBINE_MOVE); }
ec_status ec_op_scatter_add_out(ec_call *c) { return scatter_source(c, 4, EC_COMBINE_ADD); }
ec_status ec_op_scatter_value_out(ec_call *c) { return scatter_value(c, 4, EC_COMBINE_MOVE); }

/* Names of reductions. Plain scatter accepts the first two. */
static const struct {
  const char *name;
  ec_combine how;
} reductions[] = {{"add", EC_COMBINE_ADD},  {"multiply", EC_COMBINE_MUL}, {"sum", EC_COMBINE_ADD},
                  {"prod", EC_COMBINE_MUL}, {"mean", EC_COMBINE_ADD},     {"amax", EC_COMBINE_MAX},
                  {"amin", EC_COMBINE_MIN}};
enum { PLAIN = 0, REDUCE = 2, REDUCE_INDEX = 3, REDUCTIONS = 7 };

/* Parses the reduction in argument `arg`, one of those in [first, end). */
static ec_status read_reduction(ec_call *c, size_t arg, size_t first, size_t end, scattering *s) {
  const char *name = ec_arg_string(c, arg);
  for (size_t i = first; name && i < end; i++)
    if (strcmp(name, reductions[i].name) == 0) {
      s->how = reductions[i].how;
      s->mean = strcmp(name, "mean") == 0;
      return EC_OK;
    }
  return ec_call_fail(c, arg, "unknown reduction \"%.20s\"", name ? name : "");
}

ec_status ec_op_scatter_reduce_out(ec_call *c) {
  scattering s = {.out = 5};
  EC_TRY(read_reduction(c, 4, PLAIN, REDUCE, &s));
  return scatter_source(c, s.out, s.how);
}

ec_status ec_op_scatter_value_reduce_out(ec_call *c) {
  scattering s = {.out = 5};
  EC_TRY(read_reduction(c, 4, PLAIN, REDUCE, &s));
  return scatter_value(c, s.out, s.how);
}

ec_status ec_op_scatter_reduce_two_out(ec_call *c) {
  scattering s = {.out = 6, .src = ec_arg_tensor(c, 3), .without_self = !ec_arg_bool(c, 5)};
  EC_TRY(read_reduction(c, 4, REDUCE, REDUCTIONS, &s));
  return run_scatter(c, s);
}

/* Uses one index per slice: an index tensor that repeats in the other dimensions. */
ec_status ec_op_index_reduce_out(ec_call *c) {
  const ec_tensor *self = ec_arg_tensor(c, 0), *index = ec_arg_tensor(c, 2);
  scattering s = {.out = 6, .src = ec_arg_tensor(c, 3), .without_self = !ec_arg_bool(c, 5)};
  ec_tensor source = at_least_1d(s.src);
  walk w = {.indexed = at_least_1d(self), .index = source};
  EC_TRY(check_index(c, true));
  EC_TRY(ec_call_check_dtype(c, 0, EC_SET_REAL)); /* eager supports other dtypes inconsistently */
  EC_TRY(read_reduction(c, 4, REDUCE_INDEX, REDUCTIONS, &s));
  EC_TRY(ec_call_wrap_dim(c, ec_arg_int(c, 1), self->rank, &w.dim));
  EC_TRY(ec_call_check_rank(c, 2, 0, 1));
  EC_TRY(ec_call_check_same_dtype(c, 3, 0));
  EC_TRY(ec_call_check_same_dtype(c, s.out, 0));
  bool fits = source.rank == w.indexed.rank && source.sizes[w.dim] == index->numel;
  for (size_t d = 0; fits && d < source.rank; d++)
    fits = d == w.dim || source.sizes[d] == w.indexed.sizes[d];
  if (!fits) return ec_call_fail(c, 3, "expected the shape of self with one slice per index");
  w.index.dtype = index->dtype;
  memset(w.index.strides, 0, sizeof w.index.strides);
  w.index.strides[w.dim] = 1;
  return scatter_along(c, &s, &w, source.strides);
}
