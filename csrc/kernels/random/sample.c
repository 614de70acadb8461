/* Random integers, permutations, weighted draws, dropout. */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "kernels/pointwise/elementwise.h"
#include "kernels/random/random.h"

enum { BLOCK = 256 };

/* ---- integers ---------------------------------------------------------------------------- */

/* Returns the largest n such that the dtype represents all integers up to n. */
static int64_t whole_limit(ec_dtype d) {
  switch (d) {
  case EC_UINT8: return UINT8_MAX;
  case EC_INT8: return INT8_MAX;
  case EC_INT16: return INT16_MAX;
  case EC_UINT16: return UINT16_MAX;
  case EC_INT32: return INT32_MAX;
  case EC_UINT32: return UINT32_MAX;
  case EC_FLOAT16: return 1 << 11;
  case EC_BFLOAT16: return 1 << 8;
  case EC_FLOAT32: return 1 << 24;
  case EC_FLOAT64: return (int64_t)1 << 53;
  case EC_BOOL: return 1;
  default: return INT64_MAX;
  }
}

/* True if an integer is in the dtype's range, rounded or not. */
static bool int_fits(ec_dtype d, int64_t x) {
  const bool is_unsigned = d == EC_BOOL || d == EC_UINT8 || d == EC_UINT16 || d == EC_UINT32 ||
                           d == EC_UINT64;
  if (d == EC_FLOAT16) return x >= -65504 && x <= 65504;
  if (ec_is_floating(d)) return true;
  return x <= whole_limit(d) && x >= (is_unsigned ? 0 : -whole_limit(d) - 1);
}

/* Fills a dense output with integers of [low, high). */
static ec_status fill_integers(ec_call *c, size_t o, int64_t low, int64_t high) {
  const ec_tensor *out = ec_arg_tensor(c, o);
  const ec_dtype dtype = ec_tensor_dtype(out);
  const ec_cast_fn cast = ec_cast(dtype, EC_INT64);
  const int64_t item = (int64_t)ec_dtype_size(dtype);
  const uint64_t range = (uint64_t)high - (uint64_t)low;
  uint64_t bits[BLOCK];
  for (int64_t i = 0; i < out->numel; i += BLOCK) {
    const int64_t n = out->numel - i < BLOCK ? out->numel - i : BLOCK;
    ec_random_bits(c->random, bits, (size_t)n);
    for (int64_t k = 0; k < n; k++) bits[k] = (uint64_t)low + ec_random_below(bits[k], range);
    cast(n, (char *)out->data + i * item, item, (char *)bits, sizeof *bits);
  }
  return EC_OK;
}

/* Draws integers with the sizes of the list or tensor in argument `like`. */
static ec_status draw_randint(ec_call *c, size_t o, size_t like, int64_t low, int64_t high) {
  const ec_dtype dtype = ec_tensor_dtype(ec_arg_tensor(c, o));
  EC_TRY(ec_call_check_dtype(c, o, EC_SET_REALB));
  if (low >= high)
    return ec_fail(c->err, EC_INVALID_ARGUMENT,
                   "no integers from %" PRId64 " to below %" PRId64, low, high);
  if (!int_fits(dtype, low) || !int_fits(dtype, high - 1))
    return ec_fail(c->err, EC_INVALID_ARGUMENT,
                   "integers from %" PRId64 " to below %" PRId64 " do not fit dtype %s", low, high,
                   ec_dtype_name(dtype));
  if (c->args[like]->kind == EC_KIND_TENSOR) {
    const ec_tensor *self = ec_arg_tensor(c, like);
    EC_TRY(ec_call_resize(c, o, self->rank, self->sizes));
  } else {
    ec_ints list;
    EC_TRY(ec_arg_ints(c, like, &list));
    EC_TRY(ec_call_resize(c, o, list.n, list.v));
  }
  return fill_integers(c, o, low, high);
}

ec_status ec_op_randint_out(ec_call *c) { return draw_randint(c, 2, 1, 0, ec_arg_int(c, 0)); }
ec_status ec_op_randint_low_out(ec_call *c) {
  return draw_randint(c, 3, 2, ec_arg_int(c, 0), ec_arg_int(c, 1));
}
ec_status ec_op_randint_like_out(ec_call *c) { return draw_randint(c, 3, 0, 0, ec_arg_int(c, 1)); }
ec_status ec_op_randint_like_low_dtype_out(ec_call *c) {
  return draw_randint(c, 4, 0, ec_arg_int(c, 1), ec_arg_int(c, 2));
}

/* ---- permutations ------------------------------------------------------------------------ */

/* Fisher-Yates: swaps each element with itself or an earlier one. */
static void shuffle_values(ec_random *random, int64_t *x, int64_t n) {
  for (int64_t i = n - 1; i > 0; i--) {
    uint64_t bits;
    ec_random_bits(random, &bits, 1);
    const int64_t k = (int64_t)ec_random_below(bits, (uint64_t)i + 1), kept = x[i];
    x[i] = x[k];
    x[k] = kept;
  }
}

ec_status ec_op_randperm_out(ec_call *c) {
  const int64_t n = ec_arg_int(c, 0);
  const ec_tensor *out = ec_arg_tensor(c, 1);
  const ec_dtype dtype = ec_tensor_dtype(out);
  int64_t *x;
  EC_TRY(ec_call_check_dtype(c, 1, EC_SET_REAL));
  if (n < 0) return ec_call_fail(c, 0, "%" PRId64 ", expected a number from 0", n);
  if (n > whole_limit(dtype))
    return ec_call_fail(c, 0, "%" PRId64 " is too large for dtype %s", n, ec_dtype_name(dtype));
  EC_TRY(ec_call_resize(c, 1, 1, &n));
  EC_TRY(ec_call_scratch(c, (size_t)n, sizeof *x, &x));
  for (int64_t i = 0; i < n; i++) x[i] = i;
  shuffle_values(c->random, x, n);
  ec_cast(dtype, EC_INT64)(n, out->data, (int64_t)ec_dtype_size(dtype), (char *)x, sizeof *x);
  return EC_OK;
}

/* ---- multinomial ------------------------------------------------------------------------- */

/* Accumulates the weights of one row. Returns false if they are not valid weights. */
static bool accumulate_weights(double *sums, int64_t n, int64_t *positive) {
  double sum = 0;
  *positive = 0;
  for (int64_t i = 0; i < n; i++) {
    if (!(sums[i] >= 0) || isinf(sums[i])) return false;
    *positive += sums[i] > 0;
    sums[i] = sum += sums[i];
  }
  return sum > 0 && isfinite(sum);
}

/* Returns the first index with a sum above x, by bisection. */
static int64_t find_interval(const double *sums, int64_t n, double x) {
  int64_t low = 0, high = n - 1;
  while (low < high) {
    const int64_t middle = low + (high - low) / 2;
    if (sums[middle] > x) high = middle;
    else low = middle + 1;
  }
  return low;
}

/* Draws one index. Without replacement, subtracts its weight from all sums from there on. */
static int64_t draw_index(ec_random *random, double *sums, double *weights, int64_t n,
                          bool replacement) {
  uint64_t bits;
  ec_random_bits(random, &bits, 1);
  int64_t k = find_interval(sums, n, (double)(bits >> 11) * 0x1p-53 * sums[n - 1]);
  while (k > 0 && weights[k] == 0) k--; /* x rounded up to the total */
  if (replacement) return k;
  weights[k] = 0;
  double sum = k ? sums[k - 1] : 0;
  for (int64_t i = k; i < n; i++) sums[i] = sum += weights[i];
  return k;
}

static ec_status draw_rows(ec_call *c, int64_t rows, int64_t n, bool replacement) {
  const ec_view self = ec_view_of(ec_arg_tensor(c, 0)), out = ec_view_of(ec_arg_tensor(c, 4));
  const size_t last = self.rank - 1;
  const int64_t count = out.sizes[last], item = (int64_t)ec_dtype_size(self.dtype);
  const ec_cast_fn cast = ec_cast(EC_FLOAT64, self.dtype);
  double *sums, *weights;
  EC_TRY(ec_call_scratch(c, (size_t)n, sizeof *sums, &sums));
  EC_TRY(ec_call_scratch(c, (size_t)n, sizeof *weights, &weights));
  for (int64_t r = 0; r < rows; r++) {
    const char *row = self.data + (last ? r * self.strides[0] : 0) * item;
    int64_t positive, *to = (int64_t *)(void *)out.data + (last ? r * out.strides[0] : 0);
    cast(n, (char *)weights, sizeof *weights, row, self.strides[last] * item);
    memcpy(sums, weights, (size_t)n * sizeof *sums);
    if (!accumulate_weights(sums, n, &positive))
      return ec_call_fail(c, 0, "row %" PRId64 ": expected finite weights from 0 with a sum", r);
    if (!replacement && positive < count)
      return ec_call_fail(c, 0, "row %" PRId64 ": %" PRId64 " weights above 0, expected %" PRId64,
                          r, positive, count);
    for (int64_t i = 0; i < count; i++)
      to[i * out.strides[last]] = draw_index(c->random, sums, weights, n, replacement);
  }
  return EC_OK;
}

ec_status ec_op_multinomial_out(ec_call *c) {
  const ec_tensor *self = ec_arg_tensor(c, 0);
  const int64_t count = ec_arg_int(c, 1);
  const bool replacement = ec_arg_bool(c, 2);
  EC_TRY(ec_call_check_dtype(c, 0, EC_SET_FLOATING));
  EC_TRY(ec_call_check_dtype(c, 4, EC_BIT(EC_INT64)));
  EC_TRY(ec_call_check_rank(c, 0, 1, 2));
  const int64_t n = self->sizes[self->rank - 1], rows = self->rank == 2 ? self->sizes[0] : 1;
  const int64_t sizes[2] = {self->rank == 2 ? rows : count, count};
  if (count <= 0 || (!replacement && count > n))
    return ec_call_fail(c, 1, "%" PRId64 ", expected from 1%s of %" PRId64 " categories", count,
                        replacement ? ", any number" : " up to the number", n);
  if (n == 0) return ec_call_fail(c, 0, "empty, expected categories");
  EC_TRY(ec_call_resize(c, 4, self->rank, sizes));
  return draw_rows(c, rows, n, replacement);
}

/* ---- dropout ----------------------------------------------------------------------------- */

/* Multiplies by 0 or 1 and then by the scale, with eager's roundings. Complex products are full
 * ones: an infinite part makes the other NaN. */
static void drop_block(double *x, int64_t n, const char *mask, int64_t step, double scale,
                       bool pairs) {
  for (int64_t k = 0; k < n; k++) {
    const double keep = mask[k * step] ? 1 : 0;
    if (!pairs) {
      x[k] = x[k] * keep * scale;
      continue;
    }
    const double re = x[2 * k] * keep - x[2 * k + 1] * 0, im = x[2 * k + 1] * keep + x[2 * k] * 0;
    x[2 * k] = re * scale - im * 0;
    x[2 * k + 1] = im * scale + re * 0;
  }
}

static void drop_elements(const ec_tensor *out, const ec_tensor *in, const ec_tensor *mask,
                          double scale) {
  const ec_dtype dtype = ec_tensor_dtype(in);
  const bool pairs = ec_is_complex(dtype);
  const ec_dtype wide = pairs ? EC_COMPLEX128 : EC_FLOAT64;
  const ec_cast_fn load = ec_cast(wide, dtype), store = ec_cast(dtype, wide);
  const int64_t item = (int64_t)ec_dtype_size(wide);
  double x[2 * BLOCK];
  ec_iter it;
  ec_iter_init(&it, out->rank, out->sizes);
  ec_iter_tensor(&it, out);
  ec_iter_tensor(&it, in);
  ec_iter_tensor(&it, mask);
  for (bool more = ec_iter_start(&it); more; more = ec_iter_next(&it)) {
    for (int64_t i = 0; i < it.count; i += BLOCK) {
      const int64_t n = it.count - i < BLOCK ? it.count - i : BLOCK;
      load(n, (char *)x, item, it.at[1] + i * it.step[1], it.step[1]);
      drop_block(x, n, it.at[2] + i * it.step[2], it.step[2], scale, pairs);
      store(n, it.at[0] + i * it.step[0], it.step[0], (char *)x, item);
    }
  }
}

/* Training: some elements, scaled; otherwise a copy of all, of any dtype. */
ec_status ec_op_native_dropout_out(ec_call *c) {
  const ec_tensor *in = ec_arg_tensor(c, 0);
  ec_tensor *out = ec_arg_tensor(c, 3);
  const ec_dtype dtype = ec_tensor_dtype(in);
  const bool train = ec_arg_opt_bool(c, 2, true) && in->numel;
  const double p = ec_arg_double(c, 1);
  const bool narrow = dtype != EC_FLOAT64 && dtype != EC_COMPLEX128;
  ec_number keep;
  EC_TRY(ec_call_check_dtype(c, 0, train ? EC_SET_FLOATC : EC_SET_ALL));
  EC_TRY(ec_call_check_same_dtype(c, 3, 0));
  /* Eager's mask of an empty input has the input's dtype, the planned one is bool. */
  EC_TRY(ec_call_check_dtype(c, 4, EC_BIT(EC_BOOL) | (in->numel ? 0 : EC_BIT(dtype))));
  if (train && !(p >= 0 && p <= 1)) return ec_call_fail(c, 1, "%g, expected from 0 to 1", p);
  EC_TRY(ec_call_resize(c, 3, in->rank, in->sizes));
  EC_TRY(ec_call_resize(c, 4, in->rank, in->sizes));
  if (in->numel == 0) return EC_OK;
  ec_number_init(&keep, EC_FLOAT64, (ec_scalar){EC_KIND_DOUBLE, {.d = train ? 1 - p : 1}});
  ec_random_fill(c, 4, EC_DIST_BERNOULLI, &keep.tensor, &keep.tensor);
  const double scale = p == 1 ? 0 : 1 / (1 - p);
  if (train) drop_elements(out, in, ec_arg_tensor(c, 4), narrow ? (double)(float)scale : scale);
  else ec_copy_cast(c, out, in);
  return EC_OK;
}
