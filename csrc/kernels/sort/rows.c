/* Operators on a row's order along one dimension: sort, kthvalue, median, mode. For empty rows
 * eager accepts some dtypes without an order (see the sets here). */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "kernels/index/index.h"
#include "kernels/sort/order.h"

/* Orders the entries as far as needed. Returns the index of the first result. */
typedef int64_t (*order_fn)(ec_order *o, ec_dtype dtype, int64_t k);

static int64_t order_all(ec_order *o, ec_dtype dtype, int64_t k) {
  (void)dtype;
  ec_order_sort(o);
  return k;
}

static int64_t order_kth(ec_order *o, ec_dtype dtype, int64_t k) {
  (void)dtype;
  ec_order_select(o, k);
  return 0;
}

static int64_t count_nan(const ec_order *o, ec_dtype dtype) {
  uint64_t nan;
  int64_t count = 0;
  if (!ec_order_nan(dtype, &nan)) return 0;
  for (int64_t i = 0; i < o->n; i++) count += o->e[i].key == nan;
  return count;
}

/* Finds the lower of two middle elements, or the first NaN. */
static int64_t order_median(ec_order *o, ec_dtype dtype, int64_t k) {
  int64_t nans = count_nan(o, dtype);
  (void)k;
  return order_kth(o, dtype, nans ? o->n - nans : (o->n - 1) / 2);
}

static int64_t order_nanmedian(ec_order *o, ec_dtype dtype, int64_t k) {
  (void)k;
  int64_t numbers = o->n - count_nan(o, dtype);
  return order_kth(o, dtype, numbers ? (numbers - 1) / 2 : 0);
}

/* Finds the last position of the most frequent value, of several the smallest. NaNs differ from
 * each other. */
static int64_t order_mode(ec_order *o, ec_dtype dtype, int64_t k) {
  uint64_t nan;
  bool has_nan = ec_order_nan(dtype, &nan);
  int64_t most = 0;
  ec_order_sort(o);
  for (int64_t i = 0, run = 0; i < o->n; i++) {
    bool repeats = run && o->e[i].key == o->e[i - 1].key && !(has_nan && o->e[i].key == nan);
    run = repeats ? run + 1 : 1;
    if (run > most) most = run, k = i;
  }
  return k;
}

typedef struct wanted {
  order_fn fn;
  int64_t k, count; /* parameter of fn; number of results */
  size_t dim;
  bool descending, keepdim;
  size_t values, positions; /* output arguments */
} wanted;

/* The addresses of one row and its results; steps in bytes: values, positions, row. */
typedef struct row {
  char *values, *positions;
  const char *x;
  int64_t step[3], *at; /* `at`: room for the resulting positions */
  ec_dtype dtype;
} row;

static void run_row(const row *r, ec_order *o, const wanted *w) {
  ec_order_load(o, r->dtype, r->x, r->step[2], w->descending);
  int64_t first = w->fn(o, r->dtype, w->k);
  for (int64_t k = 0; k < w->count; k++) r->at[k] = o->e[first + k].at;
  ec_indexed move = {.n = w->count, .at = r->at, .dst = r->values, .src = r->x,
                     .dst_step = r->step[0], .src_at = r->step[2]};
  ec_indexed_move(r->dtype)(&move);
  ec_cast(EC_INT64, EC_INT64)(w->count, r->positions, r->step[1], (const char *)r->at,
                              sizeof *r->at);
}

/* Processes every row of `in` along the dimension. */
static ec_status run_rows(ec_call *c, const ec_tensor *in, const wanted *w) {
  const ec_tensor *outs[2] = {ec_arg_tensor(c, w->values), ec_arg_tensor(c, w->positions)};
  size_t item = ec_dtype_size(ec_tensor_dtype(in)), rank = in->rank, items[2] = {item, 8};
  int64_t sizes[EC_MAX_RANK], strides[EC_MAX_RANK] = {0};
  row r = {.dtype = ec_tensor_dtype(in)};
  ec_order o;
  ec_iter it;
  EC_TRY(ec_order_new(c, in->sizes[w->dim], &o));
  EC_TRY(ec_call_scratch(c, (size_t)w->count, sizeof *r.at, &r.at));
  memcpy(sizes, in->sizes, sizeof sizes);
  sizes[w->dim] = 1; /* the iterator walks the starts of rows */
  r.step[2] = in->strides[w->dim] * (int64_t)item;
  ec_iter_init(&it, rank, sizes);
  for (size_t i = 0; i < 2; i++) {
    for (size_t d = 0, to = 0; d < rank; d++)
      strides[d] = d != w->dim || w->keepdim ? outs[i]->strides[to++] : 0;
    r.step[i] = strides[w->dim] * (int64_t)items[i];
    ec_iter_add(&it, outs[i]->data, items[i], rank, sizes, strides);
  }
  ec_iter_add(&it, in->data, item, rank, sizes, in->strides);
  for (bool more = w->count && ec_iter_start(&it); more; more = ec_iter_next(&it))
    for (int64_t i = 0; i < it.count; i++) {
      r.values = it.at[0] + i * it.step[0];
      r.positions = it.at[1] + i * it.step[1];
      r.x = it.at[2] + i * it.step[2];
      run_row(&r, &o, w);
    }
  return EC_OK;
}

/* Reads the dimension from argument `dim`; `w` has the rest except the number of entries. */
static ec_status run_selection(ec_call *c, size_t dim, ec_dtype_set dtypes, wanted w, bool one) {
  ec_tensor in = *ec_arg_tensor(c, 0);
  int64_t sizes[EC_MAX_RANK], n;
  size_t rank = 0;
  EC_TRY(ec_call_check_dtype(c, 0, dtypes));
  EC_TRY(ec_call_wrap_dim(c, ec_arg_int(c, dim), in.rank, &w.dim));
  EC_TRY(ec_call_check_dtype(c, w.values, EC_BIT(in.dtype)));
  EC_TRY(ec_call_check_dtype(c, w.positions, EC_BIT(EC_INT64)));
  n = in.rank ? in.sizes[w.dim] : 1;
  w.count = one ? 1 : n;
  if (one && n == 0) return ec_call_fail(c, 0, "dimension %zu has no elements", w.dim);
  if (one && (w.k < 0 || w.k >= n))
    return ec_call_fail(c, 1, "%" PRId64 ", but dimension %zu has %" PRId64 " elements", w.k + 1,
                        w.dim, n);
  for (size_t d = 0; d < in.rank; d++)
    if (d != w.dim || w.keepdim) sizes[rank++] = d == w.dim ? w.count : in.sizes[d];
  EC_TRY(ec_call_resize(c, w.values, rank, sizes));
  EC_TRY(ec_call_resize(c, w.positions, rank, sizes));
  in.data = ec_arg_tensor(c, 0)->data;
  if (in.rank) return in.numel ? run_rows(c, &in, &w) : EC_OK;
  ec_copy_cast(c, ec_arg_tensor(c, w.values), &in); /* the order of one element */
  *(int64_t *)ec_arg_tensor(c, w.positions)->data = 0;
  return EC_OK;
}

static ec_status run_sort(ec_call *c, size_t dim, size_t values) {
  wanted w = {.fn = order_all, .descending = ec_arg_bool(c, dim + 1), .keepdim = true,
              .values = values, .positions = values + 1};
  return run_selection(c, dim, EC_SET_REALB, w, false);
}

ec_status ec_op_sort_values(ec_call *c) { return run_sort(c, 1, 3); }
ec_status ec_op_sort_values_stable(ec_call *c) { return run_sort(c, 2, 4); }

ec_status ec_op_kthvalue_values(ec_call *c) {
  wanted w = {.fn = order_kth, .k = ec_arg_int(c, 1), .keepdim = ec_arg_bool(c, 3), .values = 4,
              .positions = 5};
  if (w.k < 1) return ec_call_fail(c, 1, "%" PRId64 ", expected at least 1", w.k);
  w.k--;
  return run_selection(c, 2, ec_arg_tensor(c, 0)->rank ? EC_SET_REAL : EC_SET_ALL, w, true);
}

/* median, nanmedian, mode: dimension, keepdim, two outputs. */
static ec_status select_one(ec_call *c, order_fn fn, ec_dtype_set dtypes) {
  wanted w = {.fn = fn, .keepdim = ec_arg_bool(c, 2), .values = 3, .positions = 4};
  return run_selection(c, 1, dtypes, w, true);
}

ec_status ec_op_median_dim_values(ec_call *c) { return select_one(c, order_median, EC_SET_REAL); }
ec_status ec_op_nanmedian_dim_values(ec_call *c) {
  return select_one(c, order_nanmedian, EC_SET_REAL);
}

ec_status ec_op_mode_values(ec_call *c) {
  const ec_tensor *in = ec_arg_tensor(c, 0);
  return select_one(c, order_mode, in->rank && in->numel ? EC_SET_REALB : EC_SET_ALL);
}

/* Selects among all elements, in any order. For an empty tensor: NaN, converted to the output's
 * dtype. */
static ec_status select_from_all(ec_call *c, order_fn fn) {
  const ec_tensor *in = ec_arg_tensor(c, 0);
  ec_dtype dtype = ec_tensor_dtype(in);
  size_t item = ec_dtype_size(dtype);
  double nan = NAN;
  int64_t n = in->numel;
  ec_order o;
  EC_TRY(ec_call_check_dtype(c, 0, n ? EC_SET_REAL : EC_SET_ALL));
  EC_TRY(ec_call_check_dtype(c, 1, EC_BIT(dtype)));
  EC_TRY(ec_call_resize(c, 1, 0, NULL));
  char *out = ec_arg_tensor(c, 1)->data;
  if (n == 0) {
    ec_cast(dtype, EC_FLOAT64)(1, out, 0, (const char *)&nan, 0);
    return EC_OK;
  }
  EC_TRY(ec_order_new(c, n, &o));
  ec_order_load(&o, dtype, in->data, (int64_t)item, false);
  int64_t at = o.e[fn(&o, dtype, -1)].at;
  memmove(out, (const char *)in->data + (size_t)at * item, item);
  return EC_OK;
}

ec_status ec_op_median_out(ec_call *c) { return select_from_all(c, order_median); }
ec_status ec_op_nanmedian_out(ec_call *c) { return select_from_all(c, order_nanmedian); }
