/* One index per element along one dimension: gather, scatter, scatter_add. */
#include <inttypes.h>
#include <string.h>

#include "core/checked.h"
#include "kernels/index/index.h"

enum { GATHER_BLOCK = 512 };

/* A 0-d tensor counts as one of one element. */
static ec_tensor at_least_1d(const ec_tensor *t) {
  ec_tensor out = *t;
  if (t->rank) return out;
  out.rank = 1;
  out.sizes[0] = out.strides[0] = 1;
  out.dim_order[0] = 0;
  return out;
}

/* Whether the index tensor fits to another one: at most its size everywhere but in `except`. */
static ec_status check_fits(ec_call *c, size_t arg, const ec_tensor *index, const ec_tensor *other,
                            size_t except) {
  char found[EC_SHAPE_TEXT], limit[EC_SHAPE_TEXT];
  bool fits = index->rank == other->rank;
  for (size_t d = 0; fits && d < index->rank; d++)
    fits = d == except || index->sizes[d] <= other->sizes[d];
  if (fits) return EC_OK;
  return ec_call_fail(c, arg, "shape %s is larger than shape %s",
                      ec_shape_text(index->sizes, index->rank, found, sizeof found),
                      ec_shape_text(other->sizes, other->rank, limit, sizeof limit));
}

/* `indexed` is looked up along `dim`, `other` is walked beside the index tensor (argument 2). */
typedef struct walk {
  ec_tensor indexed, index;
  char *other;
  const int64_t *other_strides;
  size_t dim;
  bool write; /* to the indexed tensor */
  ec_indexed_fn fn;
} walk;

static ec_status run(ec_call *c, const walk *w) {
  size_t item = ec_dtype_size(ec_tensor_dtype(&w->indexed)), rank = w->index.rank;
  int64_t strides[EC_MAX_RANK], block[GATHER_BLOCK];
  int64_t size = w->indexed.sizes[w->dim];
  /* wraps around only for a tensor without elements, where no index is in range */
  int64_t step = (int64_t)((uint64_t)w->indexed.strides[w->dim] * item);
  ec_cast_fn read = ec_cast(EC_INT64, ec_tensor_dtype(&w->index));
  ec_iter it;
  memcpy(strides, w->indexed.strides, sizeof strides);
  strides[w->dim] = 0;
  ec_iter_init(&it, rank, w->index.sizes);
  ec_iter_add(&it, w->other, item, rank, w->index.sizes, w->other_strides);
  ec_iter_add(&it, w->indexed.data, item, rank, w->index.sizes, strides);
  ec_iter_tensor(&it, &w->index);
  ec_indexed loop = {.at = block,
                     .dst_at = w->write ? step : 0,
                     .src_at = w->write ? 0 : step,
                     .dst_step = 0};
  for (bool more = ec_iter_start(&it); more; more = ec_iter_next(&it)) {
    size_t dst = w->write, src = !w->write;
    loop.dst_step = it.step[dst];
    loop.src_step = it.step[src];
    for (int64_t i = 0; i < it.count; i += loop.n) {
      loop.n = ec_min_i64(it.count - i, GATHER_BLOCK);
      read(loop.n, (char *)block, sizeof *block, it.at[2] + i * it.step[2], it.step[2]);
      EC_TRY(ec_index_check(c, 2, block, loop.n, w->dim, size, false));
      loop.dst = it.at[dst] + i * it.step[dst];
      loop.src = it.at[src] + i * it.step[src];
      w->fn(&loop);
    }
  }
  return EC_OK;
}

static ec_status check_index(ec_call *c) {
  return ec_call_check_dtype(c, 2, EC_BIT(EC_INT64) | EC_BIT(EC_INT32));
}

ec_status ec_op_gather_out(ec_call *c) {
  const ec_tensor *self = ec_arg_tensor(c, 0), *index = ec_arg_tensor(c, 2);
  ec_tensor *out = ec_arg_tensor(c, 4);
  walk w = {.indexed = at_least_1d(self), .index = at_least_1d(index)};
  EC_TRY(check_index(c));
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
  return run(c, &w);
}

/* The output `o` becomes self; then `src` (NULL: the one element at `value`) is scattered. */
static ec_status scatter(ec_call *c, size_t o, const ec_tensor *src, char *value, bool add) {
  const ec_tensor *self = ec_arg_tensor(c, 0), *index = ec_arg_tensor(c, 2);
  static const int64_t still[EC_MAX_RANK];
  ec_tensor *out = ec_arg_tensor(c, o), source = {0};
  walk w = {.indexed = at_least_1d(self), .index = at_least_1d(index), .write = true};
  EC_TRY(check_index(c));
  EC_TRY(ec_call_wrap_dim(c, ec_arg_int(c, 1), self->rank, &w.dim));
  EC_TRY(ec_call_check_dtype(c, o, EC_BIT(self->dtype)));
  if (src) {
    EC_TRY(ec_call_check_dtype(c, 3, EC_BIT(self->dtype)));
    source = at_least_1d(src);
  }
  if (index->numel) EC_TRY(check_fits(c, 2, &w.index, &w.indexed, w.dim));
  if (index->numel && src) EC_TRY(check_fits(c, 2, &w.index, &source, SIZE_MAX));
  EC_TRY(ec_call_resize(c, o, self->rank, self->sizes));
  ec_copy_cast(out, self);
  if (w.index.numel == 0) return EC_OK;
  w.indexed = at_least_1d(out);
  w.index.data = index->data;
  w.other = src ? src->data : value;
  w.other_strides = src ? source.strides : still;
  w.fn = add ? ec_indexed_add(ec_tensor_dtype(out)) : ec_indexed_move(ec_tensor_dtype(out));
  return run(c, &w);
}

ec_status ec_op_scatter_src_out(ec_call *c) {
  return scatter(c, 4, ec_arg_tensor(c, 3), NULL, false);
}

ec_status ec_op_scatter_add_out(ec_call *c) {
  return scatter(c, 4, ec_arg_tensor(c, 3), NULL, true);
}

ec_status ec_op_scatter_value_out(ec_call *c) {
  _Alignas(16) char value[16];
  ec_cast_scalar(ec_tensor_dtype(ec_arg_tensor(c, 0)), ec_arg_scalar(c, 3), value);
  return scatter(c, 4, NULL, value, false);
}
