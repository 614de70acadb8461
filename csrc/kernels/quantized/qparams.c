/* choose_qparams: scale and zero point from the extremes of a tensor or of each row. Every step
 * rounds to the dtype of torch's computation. */
#include <inttypes.h>
#include <math.h>

#include "core/checked.h"
#include "core/convert.h"
#include "core/half.h"
#include "kernels/quantized/affine.h"
#include "kernels/reduce/reduce.h"

/* The extremes, with zero among the elements, for each element of `scale`. */
typedef struct extremes {
  ec_tensor low, high;
} extremes;

/* Rounds to a floating dtype. A double is exact enough for sums, products and quotients of float32
 * to round as in float32. */
static double round_to_dtype(ec_dtype dtype, double x) {
  const float f = (float)x;
  switch (dtype) {
  case EC_FLOAT16: return (double)ec_f16_to_f32(ec_f32_to_f16(f));
  case EC_BFLOAT16: return (double)ec_bf16_to_f32(ec_f32_to_bf16(f));
  case EC_FLOAT32: return (double)f;
  default: return x;
  }
}

/* The minimum; NaN if either is. */
static double min_or_nan(double x, double y) { return x < y || x != x ? x : y; }
static double max_or_nan(double x, double y) { return x > y || x != x ? x : y; }

/* Resizes argument `out` to the reduced shape, and computes the extremes in its layout. */
static ec_status find_extremes(ec_call *c, uint32_t mask, size_t out, size_t rank,
                               const int64_t *sizes, extremes *e) {
  const ec_tensor *x = ec_arg_tensor(c, 0);
  ec_reduce_plan plan;
  ec_reduce_shape(&plan, x, mask, true);
  EC_TRY(ec_reduce_check_nonempty(c, &plan));
  EC_TRY(ec_call_check_dtype(c, out, EC_BIT(EC_FLOAT64)));
  EC_TRY(ec_call_check_dtype(c, out + 1, EC_BIT(EC_INT64)));
  for (size_t i = out; i < out + 2; i++) EC_TRY(ec_call_resize(c, i, rank, sizes));
  ec_tensor bounds = *ec_arg_tensor(c, out);
  bounds.dtype = x->dtype;
  if (rank != x->rank) { /* one result for the whole tensor */
    bounds.rank = x->rank;
    for (size_t d = 0; d < x->rank; d++) bounds.sizes[d] = bounds.strides[d] = 1;
  }
  e->low = e->high = bounds;
  const size_t item = ec_dtype_size((ec_dtype)x->dtype);
  EC_TRY(ec_call_scratch(c, (size_t)bounds.numel, item, &e->low.data));
  EC_TRY(ec_call_scratch(c, (size_t)bounds.numel, item, &e->high.data));
  ec_reduce_extremes(c, x, mask, &e->low, &e->high);
  return EC_OK;
}

static double element_at(const ec_tensor *t, int64_t i) {
  const ec_dtype dtype = ec_tensor_dtype(t);
  double x;
  ec_cast(EC_FLOAT64, dtype)(1, (char *)&x, 0,
                             (const char *)t->data + i * (int64_t)ec_dtype_size(dtype), 0);
  return x;
}

/* Checks that the range of quantised values contains zero, as eager requires. */
static ec_status check_range(ec_call *c, size_t i) {
  const int64_t low = ec_arg_int(c, i), high = ec_arg_int(c, i + 1);
  if (low > 0 || high < 0 || low >= high || low < INT32_MIN || high > INT32_MAX)
    return ec_call_fail(c, i, "range %" PRId64 " to %" PRId64
                        ", expected one of int32 around 0", low, high);
  return EC_OK;
}

/* Stores numbers in the layout of `like` to zero_point_out (argument `i`), whatever its layout. */
static void store_zeros(const ec_call *c, size_t i, const ec_tensor *like, int64_t *zeros) {
  ec_tensor from = *like;
  from.dtype = EC_INT64;
  from.data = zeros;
  ec_copy_cast(c, ec_arg_tensor(c, i), &from);
}

ec_status ec_op_choose_qparams_tensor_out(ec_call *c) {
  const ec_tensor *x = ec_arg_tensor(c, 0);
  const ec_dtype dtype = ec_tensor_dtype(x);
  const int64_t least = ec_arg_int(c, 1), most = ec_arg_int(c, 2);
  extremes e;
  EC_TRY(ec_call_check_dtype(c, 0, EC_SET_SINGLE));
  EC_TRY(ec_affine_check_dtype(c, 4));
  EC_TRY(check_range(c, 1));
  EC_TRY(find_extremes(c, (1u << x->rank) - 1u, 5, 1, (int64_t[]){1}, &e));
  const double low = min_or_nan(element_at(&e.low, 0), 0);
  const double high = max_or_nan(element_at(&e.high, 0), 0);
  const double steps = (double)(float)(most - least);
  const double eps = round_to_dtype(EC_FLOAT32, ec_arg_double(c, 3));
  double scale = round_to_dtype(dtype, round_to_dtype(dtype, high - low) / steps);
  if (scale == scale) scale = max_or_nan(eps, scale);
  const float offset = nearbyintf((float)(low / scale));
  /* int32 arithmetic wraps if a NaN or an infinity has become the minimum */
  int64_t zero = (int32_t)((uint32_t)least - (uint32_t)ec_f32_to_i32(offset));
  zero = ec_min_i64(ec_max_i64(zero, least), most);
  *(double *)ec_arg_tensor(c, 5)->data = scale;
  *(int64_t *)ec_arg_tensor(c, 6)->data = zero;
  return EC_OK;
}

/* XNNPACK's formula for int8, whatever the dtype argument. */
static double token_scale(ec_dtype dtype, double low, double high, int64_t *zero) {
  const double least = -128, most = 127, eps = 0x1p-23;
  double scale = round_to_dtype(dtype, round_to_dtype(dtype, high - low) / (most - least));
  if (scale < eps) scale = eps;
  const double down = round_to_dtype(dtype, low / scale), up = round_to_dtype(dtype, high / scale);
  const double error = round_to_dtype(dtype, least + down) + round_to_dtype(dtype, most + up);
  double z = round_to_dtype(dtype, round_to_dtype(dtype, error) > 0 ? least - down : most - up);
  z = z < least ? least : z > most ? most : z; /* NaN stays */
  *zero = ec_f64_to_i64(nearbyint(z));
  return scale;
}

ec_status ec_op_choose_qparams_per_token_asymmetric_out(ec_call *c) {
  const ec_tensor *x = ec_arg_tensor(c, 0);
  int64_t sizes[EC_MAX_RANK], *zeros;
  extremes e;
  EC_TRY(ec_call_check_dtype(c, 0, EC_SET_FLOATING));
  for (size_t d = 0; d < x->rank; d++) sizes[d] = d + 1u < x->rank ? x->sizes[d] : 1;
  EC_TRY(find_extremes(c, x->rank ? 1u << (x->rank - 1u) : 0, 2, x->rank, sizes, &e));
  double *scales = ec_arg_tensor(c, 2)->data;
  EC_TRY(ec_call_scratch(c, (size_t)e.low.numel, sizeof *zeros, &zeros));
  for (int64_t i = 0; i < e.low.numel; i++)
    scales[i] = token_scale(ec_tensor_dtype(x), min_or_nan(element_at(&e.low, i), 0),
                            max_or_nan(element_at(&e.high, i), 0), &zeros[i]);
  store_zeros(c, 3, &e.low, zeros);
  return EC_OK;
}
