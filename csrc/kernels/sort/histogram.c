/* histc and bincount. */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "core/checked.h"
#include "core/template.h"
#include "kernels/sort/order.h"

#define EC_TEMPLATE "kernels/sort/histogram.tmpl.h"
#include "core/foreach/floating.h"
#undef EC_TEMPLATE

typedef void (*histogram_fn)(const void *x, int64_t n, void *count, int64_t bins, double from,
                             double to);
typedef void (*range_fn)(const void *x, int64_t n, double *from, double *to);
static const histogram_fn histograms[EC_DTYPE_COUNT] = {EC_ROWS_FLOATING(histogram)};
static const range_fn ranges[EC_DTYPE_COUNT] = {EC_ROWS_FLOATING(range)};

ec_status ec_op_histc_out(ec_call *c) {
  const ec_tensor *in = ec_arg_tensor(c, 0);
  ec_dtype dtype = ec_tensor_dtype(in);
  int64_t bins = ec_arg_int(c, 1), n = in->numel;
  double from = ec_scalar_double(ec_arg_scalar(c, 2)), to = ec_scalar_double(ec_arg_scalar(c, 3));
  void *x;
  EC_TRY(ec_call_check_dtype(c, 0, EC_SET_FLOATING));
  EC_TRY(ec_call_check_same_dtype(c, 4, 0));
  if (bins < 1) return ec_call_fail(c, 1, "%" PRId64 " bins, expected at least 1", bins);
  EC_TRY(ec_call_packed(c, in, dtype, &x));
  if (from == to && n) ranges[dtype](x, n, &from, &to);
  if (!isfinite(from) || !isfinite(to))
    return ec_call_fail(c, 0, "the range [%g, %g] is not finite", from, to);
  if (from == to) from -= 1, to += 1;
  if (from > to) return ec_call_fail(c, 3, "%g, less than argument 'min', %g", to, from);
  void *count;
  EC_TRY(ec_call_resize(c, 4, 1, &bins));
  EC_TRY(ec_call_scratch(c, (size_t)bins, ec_dtype_size(dtype), &count));
  histograms[dtype](x, n, count, bins, from, to);
  memcpy(ec_arg_tensor(c, 4)->data, count, (size_t)bins * ec_dtype_size(dtype));
  return EC_OK;
}

/* bincount of non-negative integers; with weights, their sums in double. */
ec_status ec_op_bincount_out(ec_call *c) {
  const ec_tensor *in = ec_arg_tensor(c, 0), *weights = ec_arg_opt_tensor(c, 1);
  int64_t n = in->numel, bins = ec_arg_int(c, 2), *at;
  ec_tensor *out = ec_arg_tensor(c, 3), sums = {.rank = 1, .strides = {1}};
  void *packed, *w = NULL;
  sums.dtype = !weights ? EC_INT64 : weights->dtype == EC_FLOAT32 ? EC_FLOAT32 : EC_FLOAT64;
  EC_TRY(ec_call_check_dtype(c, 0, EC_SET_INTEGRAL));
  EC_TRY(ec_call_check_rank(c, 0, 1, 1));
  if (bins < 0) return ec_call_fail(c, 2, "%" PRId64 ", expected at least 0", bins);
  if (weights && (weights->rank != 1 || weights->numel != n))
    return ec_call_fail(c, 1, "expected one dimension of %" PRId64 " elements", n);
  if (!n || !weights) sums.dtype = EC_INT64; /* without elements: counts, as in eager */
  EC_TRY(ec_call_check_dtype(c, 3, EC_BIT(sums.dtype)));
  EC_TRY(ec_call_packed(c, in, EC_INT64, &packed));
  /* a private copy, so that the checked values are the used ones */
  EC_TRY(ec_call_scratch(c, (size_t)n, sizeof *at, &at));
  if (n) memcpy(at, packed, (size_t)n * sizeof *at);
  for (int64_t i = 0; i < n; i++) {
    if (at[i] < 0 || at[i] == INT64_MAX)
      return ec_call_fail(c, 0, "%" PRId64 " at position %" PRId64 " is not a bin", at[i], i);
    bins = ec_max_i64(bins, at[i] + 1);
  }
  EC_TRY(ec_call_resize(c, 3, 1, &bins));
  if (weights) EC_TRY(ec_call_packed(c, weights, ec_tensor_dtype(&sums), &w));
  sums.sizes[0] = sums.numel = bins;
  EC_TRY(ec_call_scratch(c, (size_t)bins, 8, &sums.data));
  int64_t *counts = sums.data;
  float *floats = sums.data;
  double *doubles = sums.data;
  for (int64_t i = 0; i < n; i++) {
    if (!w) counts[at[i]]++;
    else if (sums.dtype == EC_FLOAT32) floats[at[i]] += ((const float *)w)[i];
    else doubles[at[i]] += ((const double *)w)[i];
  }
  ec_copy_cast(c, out, &sums);
  return EC_OK;
}
