/* Dtypes, shapes and checks of affine quantisation around its loops. */
#include "kernels/quantized/affine.h"

#include <inttypes.h>
#include <string.h>

#include "core/convert.h"
#include "core/template.h"

#define EC_TEMPLATE "kernels/quantized/affine.tmpl.h"
#include "core/foreach/floating.h"
#undef EC_TEMPLATE

/* Adds two dequantised inputs and quantises the sum: v[2] ... v[5] scales and zero points, v[6]
 * those of the result. */
static void sum_float32(int64_t n, char *const *at, const int64_t *step, ec_params *p) {
  const bounds_float32 bounds = bounds_of_float32(p);
  const float sa = (float)p->v[2].d, sb = (float)p->v[3].d, inverse = (float)p->v[6].d;
  const float za = (float)p->v[4].i, zb = (float)p->v[5].i, zero = (float)p->v[6].i;
  for (int64_t i = 0; i < n; i++) {
    const float a = *(const float *)(const void *)(at[1] + i * step[1]);
    const float b = *(const float *)(const void *)(at[2] + i * step[2]);
    const float sum = (a - za) * sa + (b - zb) * sb;
    *(float *)(void *)(at[0] + i * step[0]) =
        bounded_float32(even_float32(sum * inverse) + zero, bounds);
  }
}

static ec_elementwise_loops early_loops = {EC_ROWS_FLOATING(quantize_early)};
static ec_elementwise_loops late_loops = {EC_ROWS_FLOATING(quantize_late)};
static ec_elementwise_loops back_loops = {EC_ROWS_FLOATING(dequantize)};
static ec_elementwise_loops whole_loops = {EC_ROWS_FLOATING(dequantize_whole)};
static ec_elementwise_loops invert_loops = {EC_ROWS_FLOATING(invert)};

ec_tensor ec_affine_number(ec_number *number, ec_dtype dtype, ec_scalar s) {
  ec_number_init(number, dtype, s);
  return number->tensor;
}

ec_tensor ec_affine_along(const ec_tensor *t, size_t rank, size_t axis) {
  ec_tensor v = *t;
  v.rank = (uint8_t)rank;
  for (size_t d = 0; d < rank; d++) {
    v.sizes[d] = d == axis ? t->numel : 1;
    v.strides[d] = 1;
  }
  return v;
}

/* Returns the values of an integer dtype; false if tensors cannot be quantised to it. */
static bool value_range(ec_dtype dtype, int64_t *low, int64_t *high) {
  switch (dtype) {
  case EC_UINT8: *low = 0, *high = UINT8_MAX; return true;
  case EC_INT8: *low = INT8_MIN, *high = INT8_MAX; return true;
  case EC_UINT16: *low = 0, *high = UINT16_MAX; return true;
  case EC_INT16: *low = INT16_MIN, *high = INT16_MAX; return true;
  case EC_INT32: *low = INT32_MIN, *high = INT32_MAX; return true;
  default: return false;
  }
}

ec_status ec_affine_check_dtype(ec_call *c, size_t i) {
  int64_t low, high, dtype = ec_arg_int(c, i);
  if (ec_dtype_valid(dtype) && value_range((ec_dtype)dtype, &low, &high)) return EC_OK;
  return ec_call_fail(c, i, "dtype %" PRId64 ", expected uint8, int8, int16, uint16 or int32",
                      dtype);
}

/* Checks quant_min and quant_max at `i` and i + 1. */
static ec_status check_bounds(ec_call *c, size_t i, ec_dtype dtype) {
  int64_t low = 0, high = 0;
  value_range(dtype, &low, &high);
  if (ec_arg_int(c, i) < low)
    return ec_call_fail(c, i, "%" PRId64 " is below the minimum of %s", ec_arg_int(c, i),
                        ec_dtype_name(dtype));
  if (ec_arg_int(c, i + 1) > high)
    return ec_call_fail(c, i + 1, "%" PRId64 " is above the maximum of %s", ec_arg_int(c, i + 1),
                        ec_dtype_name(dtype));
  return EC_OK;
}

ec_status ec_affine_check_range(ec_call *c, size_t i) {
  EC_TRY(ec_affine_check_dtype(c, i + 2));
  return check_bounds(c, i, (ec_dtype)ec_arg_int(c, i + 2));
}

/* Returns the dtype of an operation between the intermediate result, a `dtype`, and a tensor. */
static ec_status promote_affine(ec_call *c, const ec_affine *a, ec_dtype dtype, const ec_tensor *t,
                                ec_dtype *out) {
  ec_result_type r = {0};
  ec_tensor x = a->x;
  x.dtype = (uint8_t)dtype;
  ec_result_add_tensor(&r, &x);
  ec_result_add_tensor(&r, t);
  return ec_result_dtype(c, &r, out);
}

/* Returns an operand broadcast to a tensor of `dtype`: eager rounds a single number to float32, not
 * to float16 or bfloat16. */
static ec_operand broadcast_operand(const ec_tensor *t, ec_dtype dtype) {
  const ec_dtype compute = ec_compute_dtype(dtype);
  return (ec_operand){t, t->numel == 1 ? compute : dtype, compute};
}

static void apply_loops(ec_tensor *out, const ec_affine *a, ec_dtype dtype,
                        ec_elementwise_loops loops, const ec_params *params) {
  ec_elementwise p = {.inputs = 3, .logical = dtype, .compute = ec_compute_dtype(dtype)};
  p.in[0] = (ec_operand){&a->x, dtype, p.compute};
  p.in[1] = broadcast_operand(&a->scale, dtype);
  p.in[2] = broadcast_operand(&a->zero, dtype);
  p.loop = loops[dtype];
  if (params) p.params = *params;
  ec_elementwise_apply(out, &p);
}

/* Computes only x * scale, if the zero point makes the following dtype a wider one. */
static ec_status multiply_by_scale(ec_call *c, ec_affine *a, ec_dtype dtype) {
  ec_number zero;
  ec_tensor out;
  ec_affine product = *a;
  product.zero = ec_affine_number(&zero, dtype, (ec_scalar){EC_KIND_INT, {.i = 0}});
  EC_TRY(ec_call_like(c, &a->x, dtype, &out));
  apply_loops(&out, &product, dtype, back_loops, NULL);
  a->x = out;
  return EC_OK;
}

ec_status ec_affine_invert(ec_call *c, ec_affine *a) {
  const ec_dtype dtype = ec_to_float(ec_tensor_dtype(&a->scale));
  ec_tensor out;
  EC_TRY(ec_call_like(c, &a->scale, dtype, &out));
  ec_elementwise p = {.inputs = 1, .logical = dtype, .compute = ec_compute_dtype(dtype)};
  p.in[0] = (ec_operand){&a->scale, dtype, p.compute};
  p.loop = invert_loops[dtype];
  ec_elementwise_apply(&out, &p);
  a->scale = out;
  return EC_OK;
}

ec_status ec_affine_quantize(ec_call *c, ec_affine *a, size_t range, bool late, size_t out) {
  ec_dtype product, sum;
  ec_number one;
  EC_TRY(ec_affine_check_range(c, range));
  EC_TRY(ec_call_check_dtype(c, out, EC_BIT(ec_arg_int(c, range + 2))));
  EC_TRY(promote_affine(c, a, a->as, &a->scale, &product));
  EC_TRY(promote_affine(c, a, product, &a->zero, &sum));
  for (size_t i = range; i < range + 2; i++) EC_TRY(ec_call_check_scalar(c, i, sum));
  EC_TRY(ec_call_resize(c, out, a->x.rank, a->x.sizes));
  if (product != sum) {
    EC_TRY(multiply_by_scale(c, a, product));
    a->scale = ec_affine_number(&one, sum, (ec_scalar){EC_KIND_INT, {.i = 1}});
  }
  ec_params params = {{{0, ec_arg_int(c, range)}, {0, ec_arg_int(c, range + 1)}}, false};
  apply_loops(ec_arg_tensor(c, out), a, sum, late ? late_loops : early_loops, &params);
  return EC_OK;
}

/* True if no difference of an input's and a zero point's value wraps or rounds. */
static ec_status is_plain(ec_call *c, const ec_affine *a, ec_dtype common, bool *plain) {
  int64_t low = 0, high = 0, least, most, *zero;
  ec_tensor numbers;
  *plain = !c->reference && ec_dtype_size(ec_tensor_dtype(&a->x)) < 4 &&
           value_range(ec_tensor_dtype(&a->x), &least, &most);
  if (!*plain) return EC_OK;
  EC_TRY(ec_call_like(c, &a->zero, EC_INT64, &numbers));
  ec_copy_cast(c, &numbers, &a->zero);
  zero = numbers.data;
  for (int64_t i = 0; i < numbers.numel; i++) {
    if (i == 0 || zero[i] < low) low = zero[i];
    if (i == 0 || zero[i] > high) high = zero[i];
  }
  const int64_t limit = 1 << 22; /* float32 represents all integer differences below it */
  *plain = low > -limit && high < limit;
  if (!*plain || !value_range(common, &low, &high)) return EC_OK;
  const int64_t first = least, last = most;
  for (int64_t i = 0; i < numbers.numel; i++)
    *plain &= first - zero[i] >= low && last - zero[i] <= high;
  return EC_OK;
}

/* Dequantises integers with integer zero points: the difference wraps in their common type. */
static ec_status dequantize_whole(ec_call *c, const ec_affine *a, ec_dtype common, ec_dtype dtype,
                                  ec_tensor *out) {
  bool plain;
  EC_TRY(is_plain(c, a, common, &plain));
  ec_elementwise p = {.inputs = 3, .logical = dtype, .compute = ec_compute_dtype(dtype)};
  const ec_dtype exact = plain ? p.compute : EC_INT64;
  p.in[0] = (ec_operand){&a->x, exact, exact};
  p.in[1] = broadcast_operand(&a->scale, dtype);
  p.in[2] = (ec_operand){&a->zero, exact, exact};
  p.loop = plain ? back_loops[dtype] : whole_loops[dtype];
  p.params.v[0].i = 64 - 8 * (int64_t)ec_dtype_size(common);
  p.params.v[1].i = common == EC_UINT8 || common == EC_UINT16 || common == EC_UINT32;
  ec_elementwise_apply(out, &p);
  return EC_OK;
}

ec_status ec_affine_dequantize(ec_call *c, ec_affine *a, size_t out) {
  ec_dtype common = a->as, dtype;
  ec_number none, one;
  if (!a->no_zero) EC_TRY(promote_affine(c, a, common, &a->zero, &common));
  EC_TRY(promote_affine(c, a, common, &a->scale, &dtype));
  if (!ec_is_floating(dtype))
    return ec_call_fail(c, 1, "dtype %s, expected a floating one",
                        ec_dtype_name(ec_tensor_dtype(&a->scale)));
  EC_TRY(ec_call_resize(c, out, a->x.rank, a->x.sizes));
  if (!a->no_zero && !ec_is_floating(common))
    return dequantize_whole(c, a, common, dtype, ec_arg_tensor(c, out));
  if (!a->no_zero && common != dtype) {
    ec_affine difference = *a;
    difference.scale = ec_affine_number(&one, common, (ec_scalar){EC_KIND_INT, {.i = 1}});
    EC_TRY(ec_call_like(c, &difference.x, common, &a->x));
    apply_loops(&a->x, &difference, common, back_loops, NULL);
  }
  if (a->no_zero || common != dtype)
    a->zero = ec_affine_number(&none, dtype, (ec_scalar){EC_KIND_INT, {.i = 0}});
  apply_loops(ec_arg_tensor(c, out), a, dtype, back_loops, NULL);
  return EC_OK;
}

void ec_affine_row(const ec_affine_rows *r, int64_t row, int64_t n, const float *x, float *out) {
  const ec_dtype dtype = ec_tensor_dtype(r->scale);
  const ec_cast_fn cast = ec_cast(EC_FLOAT32, dtype);
  const int64_t item = (int64_t)ec_dtype_size(dtype), step[4] = {4, 4, 0, 0};
  const ec_tensor *const parameters[2] = {r->scale, r->zero};
  ec_params none = {0};
  for (int64_t k = 0, at = 0; at < n; k++, at += r->group) {
    float number[2] = {0, 0};
    for (size_t i = 0; i < 2 && parameters[i]; i++) {
      const bool by_group = parameters[i]->rank > 1 && parameters[i]->sizes[1] > 1;
      const int64_t place =
          row * parameters[i]->strides[0] + (by_group ? k * parameters[i]->strides[1] : 0);
      cast(1, (char *)&number[i], 0, (const char *)parameters[i]->data + place * item, 0);
    }
    char *const ends[4] = {(char *)(out + at), (char *)(uintptr_t)(x + at), (char *)&number[0],
                           (char *)&number[1]};
    back_loops[r->dtype](n - at < r->group ? n - at : r->group, ends, step, &none);
  }
}

ec_status ec_op_quantized_add_out(ec_call *c) {
  enum { A, B = 5, OUT_SCALE = 10, OUT = 14 };
  ec_elementwise p = {.inputs = 2, .logical = EC_FLOAT32, .compute = EC_FLOAT32,
                      .loop = sum_float32};
  size_t rank = 0;
  int64_t sizes[EC_MAX_RANK];
  for (size_t i = 0; i < 2; i++) {
    const size_t at = i ? B : A;
    EC_TRY(ec_call_check_dtype(c, at, EC_BIT(EC_UINT8)));
    EC_TRY(ec_call_broadcast(c, at, ec_arg_tensor(c, at), &rank, sizes));
    p.in[i] = (ec_operand){ec_arg_tensor(c, at), EC_FLOAT32, EC_FLOAT32};
    p.params.v[2 + i].d = ec_arg_double(c, at + 1);
    p.params.v[4 + i].i = ec_arg_int(c, at + 2);
  }
  const double scale = ec_arg_double(c, OUT_SCALE);
  if (scale == 0) return ec_call_fail(c, OUT_SCALE, "a scale of 0");
  p.params.v[6].d = 1.0 / scale;
  p.params.v[6].i = ec_arg_int(c, OUT_SCALE + 1);
  EC_TRY(check_bounds(c, OUT_SCALE + 2, EC_UINT8));
  for (size_t i = 0; i < 2; i++) p.params.v[i].i = ec_arg_int(c, OUT_SCALE + 2 + i);
  EC_TRY(ec_call_check_dtype(c, OUT, EC_BIT(EC_UINT8)));
  EC_TRY(ec_call_resize(c, OUT, rank, sizes));
  ec_elementwise_apply(ec_arg_tensor(c, OUT), &p);
  return EC_OK;
}
