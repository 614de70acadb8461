/* arange, fftfreq and rfftfreq. As in eager PyTorch, arange computes its size in integers for int64
 * outputs and in float64 for others. Each element is computed from its index, so that rounding does
 * not accumulate. Blocks are then converted to the output. */
#include "kernels/create/range.h"

#include <inttypes.h>
#include <math.h>

#include "kernels/copy.h"

enum { BLOCK = 256 };

/* Counts integers from start to end, exclusive; the difference of two int64 fits uint64. */
static uint64_t count_int(int64_t start, int64_t end, int64_t step) {
  const bool up = step > 0;
  if (start == end) return 0;
  const uint64_t distance = up ? (uint64_t)end - (uint64_t)start : (uint64_t)start - (uint64_t)end;
  const uint64_t stride = up ? (uint64_t)step : 0 - (uint64_t)step;
  return (distance - 1) / stride + 1;
}

static ec_status count_range(ec_call *c, size_t o, ec_scalar start, ec_scalar end, ec_scalar step,
                             int64_t *n) {
  const double a = ec_scalar_double(start), b = ec_scalar_double(end), s = ec_scalar_double(step);
  const bool whole = ec_arg_tensor(c, o)->dtype == EC_INT64;
  if (!isfinite(a) || !isfinite(b))
    return ec_fail(c->err, EC_INVALID_ARGUMENT, "unsupported range: %g to %g", a, b);
  if (!(s > 0 || s < 0) || (whole && ec_scalar_int(step) == 0))
    return ec_fail(c->err, EC_INVALID_ARGUMENT, "the step must not be zero");
  if (s > 0 ? b < a : b > a)
    return ec_fail(c->err, EC_INVALID_ARGUMENT, "a step of %g does not lead from %g to %g", s, a,
                   b);
  if (whole) {
    const uint64_t exact = count_int(ec_scalar_int(start), ec_scalar_int(end), ec_scalar_int(step));
    *n = exact > INT64_MAX ? INT64_MAX : (int64_t)exact;
  } else {
    const double steps = ceil((b - a) / s);
    *n = steps >= 0x1p63 ? INT64_MAX : (int64_t)steps;
  }
  return EC_OK;
}

static void fill_ints(ec_tensor *out, int64_t start, int64_t step) {
  const ec_cast_fn cast = ec_cast(ec_tensor_dtype(out), EC_INT64);
  const int64_t item = (int64_t)ec_dtype_size(ec_tensor_dtype(out));
  uint64_t value = (uint64_t)start;
  int64_t block[BLOCK];
  if (ec_tensor_dtype(out) == EC_INT64) {
    int64_t *o = out->data;
    for (int64_t k = 0; k < out->numel; k++, value += (uint64_t)step) o[k] = (int64_t)value;
    return;
  }
  for (int64_t i = 0; i < out->numel; i += BLOCK) {
    const int64_t n = out->numel - i < BLOCK ? out->numel - i : BLOCK;
    for (int64_t k = 0; k < n; k++, value += (uint64_t)step) block[k] = (int64_t)value;
    cast(n, (char *)out->data + i * item, item, (char *)block, sizeof *block);
  }
}

static void fill_doubles(ec_tensor *out, double start, double step) {
  const ec_cast_fn cast = ec_cast(ec_tensor_dtype(out), EC_FLOAT64);
  const int64_t item = (int64_t)ec_dtype_size(ec_tensor_dtype(out));
  double block[BLOCK];
  for (int64_t i = 0; i < out->numel; i += BLOCK) {
    const int64_t n = out->numel - i < BLOCK ? out->numel - i : BLOCK;
    const double first = (double)i; /* conversions of int32 vectorise, those of int64 do not */
    for (int32_t k = 0; k < (int32_t)n; k++) block[k] = start + step * (first + (double)k);
    cast(n, (char *)out->data + i * item, item, (char *)block, sizeof *block);
  }
}

ec_status ec_arange(ec_call *c, size_t o, ec_scalar start, ec_scalar end, ec_scalar step) {
  int64_t n;
  ec_tensor *out = ec_arg_tensor(c, o);
  EC_TRY(ec_call_check_dtype(c, o, EC_SET_REAL));
  EC_TRY(count_range(c, o, start, end, step, &n));
  EC_TRY(ec_call_resize(c, o, 1, &n));
  if (ec_is_integral(ec_tensor_dtype(out)))
    fill_ints(out, ec_scalar_int(start), ec_scalar_int(step));
  else
    fill_doubles(out, ec_scalar_double(start), ec_scalar_double(step));
  return EC_OK;
}

/* Computes positions 0, 1, ... times 1 / (n d); those after the first (n + 1) / 2 are reduced by n.
 * As in eager PyTorch, positions round to the output's dtype, and all but float64 multiply in
 * float32. */
static ec_status fft_frequencies(ec_call *c, bool onesided) {
  const int64_t n = ec_arg_int(c, 0), count = onesided ? n / 2 + 1 : n;
  const double factor = 1.0 / ((double)n * ec_arg_double(c, 1));
  ec_tensor *out = ec_arg_tensor(c, 2);
  const ec_dtype dtype = ec_tensor_dtype(out);
  const ec_cast_fn to = ec_cast(dtype, EC_FLOAT64), from = ec_cast(EC_FLOAT64, dtype);
  const int64_t item = (int64_t)ec_dtype_size(dtype), eight = sizeof(double);
  double block[BLOCK];
  EC_TRY(ec_call_check_dtype(c, 2, EC_SET_FLOATING));
  if (count < 0) return ec_call_fail(c, 0, "%" PRId64 ", expected a number from 0", n);
  EC_TRY(ec_call_resize(c, 2, 1, &count));
  for (int64_t i = 0; i < count; i += BLOCK) {
    const int64_t size = count - i < BLOCK ? count - i : BLOCK;
    char *at = (char *)out->data + i * item;
    for (int64_t k = 0; k < size; k++)
      block[k] = (double)(i + k < n - n / 2 || onesided ? i + k : i + k - n);
    to(size, at, item, (char *)block, eight);
    from(size, (char *)block, eight, at, item);
    for (int64_t k = 0; k < size; k++)
      block[k] = dtype == EC_FLOAT64 ? block[k] * factor
                                     : (double)((float)block[k] * (float)factor);
    to(size, at, item, (char *)block, eight);
  }
  return EC_OK;
}

ec_status ec_op_fft_fftfreq_out(ec_call *c) { return fft_frequencies(c, false); }
ec_status ec_op_fft_rfftfreq_out(ec_call *c) { return fft_frequencies(c, true); }
