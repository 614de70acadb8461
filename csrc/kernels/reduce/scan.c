/* cumsum, cumprod, logcumsumexp, cummax, cummin. */
#include <string.h>

#include "core/checked.h"
#include "core/complex.h"
#include "core/template.h"
#include "kernels/copy.h"
#include "kernels/reduce/reduce.h"

enum { SCAN_COLUMNS = 128, SCAN_LINES = 4 };

/* `k` lines of `n` elements; `at` only for extremes. Adjacent ones, or SCAN_LINES with steps. */
typedef struct scan_line {
  char *dst;
  const char *src;
  int64_t *at;
  int64_t ds, ss, as, n, k;
  int64_t next_dst, next_src; /* between lines; 0: they are adjacent */
} scan_line;
typedef void (*scan_fn)(const scan_line *line);

/* log(exp(a) + exp(b)) without overflow. */
static inline double log_sum(double a, double b) {
  double most = a > b ? a : b, least = a > b ? b : a;
  if (a != a || b != b) return a + b;
  if (isinf(most) && most == least) return most;
  return log1p(exp(least - most)) + most;
}

/* For equal real parts the angle comes from the second one, for log(0) from the first one. */
static inline double _Complex log_sum_complex(double _Complex a, double _Complex b) {
  const bool falls = creal(b) < creal(a);
  const double _Complex least = falls ? b : a, most = falls ? a : b;
  if (a != a || b != b) return __builtin_complex((double)NAN, (double)NAN);
  if (isfinite(creal(least)) || creal(least) != creal(most))
    return ec_log1p(cexp(least - most)) + most;
  return creal(least) < 0 ? least : clog(cexp(least) + cexp(most));
}

#define EC_TEMPLATE "kernels/reduce/scan.tmpl.h"

#define EC_MFN(name) EC_FN(EC_PASTE(sum, name))
#define EC_START 0
#define EC_NEXT(a, v) ((a) + (v))
#include "core/foreach/all.h"
#undef EC_MFN
#undef EC_START
#undef EC_NEXT

#define EC_MFN(name) EC_FN(EC_PASTE(prod, name))
#define EC_START 1
#define EC_NEXT(a, v) ec_times(a, v)
#include "core/foreach/all.h"
#undef EC_MFN
#undef EC_START
#undef EC_NEXT

#define EC_MFN(name) EC_FN(EC_PASTE(log, name))
#define EC_START -INFINITY
#define EC_NEXT(a, v) log_sum(a, v)
#include "core/foreach/floating.h"
#undef EC_NEXT
#define EC_NEXT(a, v) log_sum_complex(a, v)
#include "core/foreach/complex.h"
#undef EC_MFN
#undef EC_TEMPLATE

#define EC_TEMPLATE "kernels/reduce/extreme_scan.tmpl.h"

#define EC_MFN(name) EC_FN(EC_PASTE(max, name))
#define EC_BEATS(x, y) ((x) > (y))
#include "core/foreach/realb.h"
#undef EC_MFN
#undef EC_BEATS

#define EC_MFN(name) EC_FN(EC_PASTE(min, name))
#define EC_BEATS(x, y) ((x) < (y))
#include "core/foreach/realb.h"

static const scan_fn sums[EC_DTYPE_COUNT] = {EC_ROWS_ALL(sum_scan)};
static const scan_fn prods[EC_DTYPE_COUNT] = {EC_ROWS_ALL(prod_scan)};
static const scan_fn logs[EC_DTYPE_COUNT] = {EC_ROWS_FLOATC(log_scan)};
static const scan_fn maxima[EC_DTYPE_COUNT] = {EC_ROWS_REALB(max_scan)};
static const scan_fn minima[EC_DTYPE_COUNT] = {EC_ROWS_REALB(min_scan)};

/* Scans along dimension `dim` of `in`, which has the dtype and sizes of `out`; `at` may be NULL. */
static void scan_dim(const ec_tensor *in, const ec_tensor *out, const ec_tensor *at, size_t dim,
                     scan_fn fn, bool plain) {
  int64_t sizes[EC_MAX_RANK], item = (int64_t)ec_dtype_size(ec_tensor_dtype(out)), at_size = 8;
  scan_line l = {.n = 1};
  ec_iter it;
  memcpy(sizes, out->sizes, sizeof sizes);
  if (out->rank) {
    l = (scan_line){.n = sizes[dim], .ds = out->strides[dim], .ss = in->strides[dim]};
    if (at) l.as = at->strides[dim];
    sizes[dim] = 1; /* the iterator walks the starts of lines */
  }
  ec_iter_init(&it, out->rank, sizes);
  ec_iter_add(&it, out->data, (size_t)item, out->rank, sizes, out->strides);
  ec_iter_add(&it, in->data, (size_t)item, out->rank, sizes, in->strides);
  if (at) ec_iter_add(&it, at->data, sizeof *l.at, out->rank, sizes, at->strides);
  for (bool more = l.n && ec_iter_start(&it); more; more = ec_iter_next(&it)) {
    bool near = !plain && it.step[0] == item && it.step[1] == item;
    if (at) near &= it.step[2] == at_size;
    for (int64_t i = 0; i < it.count; i += l.k) {
      l.dst = it.at[0] + i * it.step[0];
      l.src = it.at[1] + i * it.step[1];
      if (at) l.at = (int64_t *)(void *)(it.at[2] + i * it.step[2]);
      const bool some = !near && !at && !plain && it.step[1] && it.count - i >= SCAN_LINES;
      l.next_dst = some ? it.step[0] / item : 0;
      l.next_src = some ? it.step[1] / item : 0;
      l.k = near ? ec_min_i64(it.count - i, SCAN_COLUMNS) : some ? SCAN_LINES : 1;
      fn(&l);
    }
  }
}

/* Converts the input to the output's dtype first, as eager does. */
static ec_status run_scan(ec_call *c, const scan_fn *fns, size_t dtype_arg, size_t o) {
  const ec_tensor *in = ec_arg_tensor(c, 0);
  ec_tensor *out = ec_arg_tensor(c, o);
  ec_dtype dtype = ec_tensor_dtype(in);
  ec_reduce_plan plan;
  size_t dim;
  EC_TRY(ec_call_wrap_dim(c, ec_arg_int(c, 1), in->rank, &dim));
  if (dtype_arg) EC_TRY(ec_reduce_dtype(c, dtype_arg, o, &dtype));
  else EC_TRY(ec_call_check_same_dtype(c, o, 0));
  ec_reduce_shape(&plan, in, 0, false);
  EC_TRY(ec_reduce_resize(c, &plan, o));
  EC_TRY(ec_reduce_cast(c, &plan, dtype, &in));
  plan.in.data = in->data;
  scan_dim(&plan.in, out, NULL, dim, fns[dtype], c->reference);
  return EC_OK;
}

ec_status ec_op_cumsum_out(ec_call *c) { return run_scan(c, sums, 2, 3); }
ec_status ec_op_cumprod_out(ec_call *c) { return run_scan(c, prods, 2, 3); }

ec_status ec_op_logcumsumexp_out(ec_call *c) {
  EC_TRY(ec_call_check_dtype(c, 0, EC_SET_FLOATC));
  return run_scan(c, logs, 0, 2);
}

static ec_status run_extreme_scan(ec_call *c, const scan_fn *fns) {
  static const int64_t first = 0;
  ec_tensor in = *ec_arg_tensor(c, 0);
  size_t dim;
  const bool alone = !in.rank || !in.numel; /* nothing to compare: eager accepts any dtype */
  EC_TRY(ec_call_check_dtype(c, 0, alone ? EC_SET_ALL : EC_SET_REALB));
  EC_TRY(ec_call_wrap_dim(c, ec_arg_int(c, 1), in.rank, &dim));
  EC_TRY(ec_call_check_same_dtype(c, 2, 0));
  EC_TRY(ec_call_check_dtype(c, 3, EC_BIT(EC_INT64)));
  EC_TRY(ec_call_resize(c, 2, in.rank, in.sizes));
  EC_TRY(ec_call_resize(c, 3, in.rank, in.sizes));
  in.data = ec_arg_tensor(c, 0)->data;
  ec_tensor *values = ec_arg_tensor(c, 2), *positions = ec_arg_tensor(c, 3);
  if (alone) ec_copy_cast(c, values, &in);
  if (alone) ec_fill_tensor(c, positions, &first);
  else scan_dim(&in, values, positions, dim, fns[in.dtype], c->reference);
  return EC_OK;
}

ec_status ec_op_cummax_out(ec_call *c) { return run_extreme_scan(c, maxima); }
ec_status ec_op_cummin_out(ec_call *c) { return run_extreme_scan(c, minima); }
