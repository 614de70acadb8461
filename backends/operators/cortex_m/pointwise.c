/* Operators that compute each element by itself. */
#include "pointwise.h"

#include "loop.h"
#include "requantize.h"

#include <math.h>

/* Defines a function for one row of operands: `expression` of `x` and `y`, from types A and B. */
#define CM_ROW(name, PARAMETERS, A, B, OUT, expression)                                            \
  static void name(const void *user, const cm_row *row) {                                          \
    const PARAMETERS *p = user;                                                                    \
    const A *a = (const A *)p->a + row->at[CM_A];                                                  \
    const B *b = (const B *)p->b + row->at[CM_B];                                                  \
    OUT *out = (OUT *)p->out + row->at[CM_OUT];                                                    \
    for (int64_t i = 0; i < row->n; i++) {                                                         \
      const A x = a[i * row->step[CM_A]];                                                          \
      const B y = b[i * row->step[CM_B]];                                                          \
      (void)y;                                                                                     \
      out[i * row->step[CM_OUT]] = (OUT)(expression);                                              \
    }                                                                                              \
  }

typedef struct operands {
  const void *a, *b;
  void *out;
} operands;

/* ---- quantize and dequantize ------------------------------------------------------------- */

/* Of quantized_decomposed, from float32: both compute in float32. */
typedef struct affine {
  const void *a, *b;
  void *out;
  float scale, inverse, zero_point, low, high;
} affine;

static float affine_quantize(const affine *p, float x) {
  const float q = nearbyintf(x * p->inverse) + p->zero_point;
  return cm_clamp_float(q, p->low, p->high);
}

CM_ROW(quantize_to_int8, affine, float, float, int8_t, affine_quantize(p, x))
CM_ROW(quantize_to_int16, affine, float, float, int16_t, affine_quantize(p, x))
CM_ROW(dequantize_int8, affine, int8_t, int8_t, float, ((float)x - p->zero_point) * p->scale)
CM_ROW(dequantize_int16, affine, int16_t, int16_t, float, ((float)x - p->zero_point) * p->scale)

/* Reads the arguments (input, scale, zero_point, quant_min, quant_max, dtype, out). */
static uint32_t affine_read(const cm_call *c, int32_t quantized, affine *p, cm_loop *loop) {
  const double scale = c->args[1].as.d;
  const bool wide = quantized == EC_DTYPE_INT16;
  const int64_t low = c->args[3].as.i, high = c->args[4].as.i;
  int32_t zero_point;
  if (quantized != EC_DTYPE_INT8 && !wide)
    return EC_ARG_FAIL(c, "the quantized tensor has ScalarType %d, expected int8 or int16",
                       quantized);
  EC_BACKEND_TRY(cm_int32(c, 2, "zero_point", &zero_point));
  const int64_t limit = wide ? INT16_MAX : INT8_MAX;
  if (low > high || low < -limit - 1 || high > limit)
    return EC_ARG_FAIL(c, "'quant_min' is %lld and 'quant_max' %lld, beyond the dtype",
                       (long long)low, (long long)high);
  *p = (affine){.scale = (float)scale, .inverse = (float)(1.0 / scale),
                .zero_point = (float)zero_point, .low = (float)low, .high = (float)high};
  p->a = p->b = cm_tensor(c, 0)->data;
  EC_BACKEND_TRY(cm_loop_of(c, 0, 0, 6, loop));
  p->out = cm_tensor(c, 6)->data;
  return EC_BACKEND_OK;
}

uint32_t cm_quantize_per_tensor(const cm_call *c) {
  const int32_t quantized = cm_tensor(c, 6)->dtype;
  affine p;
  cm_loop loop;
  EC_BACKEND_TRY(cm_check(c, 0, "input", EC_DTYPE_FLOAT32, -1));
  EC_BACKEND_TRY(affine_read(c, quantized, &p, &loop));
  cm_loop_run(&loop, quantized == EC_DTYPE_INT8 ? quantize_to_int8 : quantize_to_int16, &p);
  return EC_BACKEND_OK;
}

uint32_t cm_dequantize_per_tensor(const cm_call *c) {
  const int32_t quantized = cm_tensor(c, 0)->dtype;
  affine p;
  cm_loop loop;
  EC_BACKEND_TRY(cm_check(c, 6, "out", EC_DTYPE_FLOAT32, -1));
  EC_BACKEND_TRY(affine_read(c, quantized, &p, &loop));
  cm_loop_run(&loop, quantized == EC_DTYPE_INT8 ? dequantize_int8 : dequantize_int16, &p);
  return EC_BACKEND_OK;
}

/* ---- add, mul, div ----------------------------------------------------------------------- */

enum { ADD_SHIFT = 20 }; /* left shift of int8 operands in arm_elementwise_add_s8 */

/* Parameters of add and mul. */
typedef struct fixed {
  const void *a, *b;
  void *out;
  int32_t a_zero, b_zero, zero, low, high;
  cm_factor a_factor, b_factor, factor;
} fixed;

static int32_t fixed_finish(const fixed *p, int32_t value) {
  return cm_clamp(cm_add(cm_requantize(value, p->factor), p->zero), p->low, p->high);
}

static int32_t fixed_operand(int32_t x, int32_t zero, cm_factor factor) {
  const uint32_t centred = (uint32_t)x - (uint32_t)zero;
  return cm_requantize((int32_t)(centred << ADD_SHIFT), factor);
}

static int32_t fixed_product(const fixed *p, int32_t x, int32_t y) {
  return (int32_t)(((uint32_t)x - (uint32_t)p->a_zero) * ((uint32_t)y - (uint32_t)p->b_zero));
}

CM_ROW(add_row, fixed, int8_t, int8_t, int8_t,
       fixed_finish(p, cm_add(fixed_operand(x, p->a_zero, p->a_factor),
                              fixed_operand(y, p->b_zero, p->b_factor))))
CM_ROW(mul_row, fixed, int8_t, int8_t, int8_t, fixed_finish(p, fixed_product(p, x, y)))

/* Runs a row function on the int8 tensors `a`, `b` and `out`. */
static uint32_t fixed_run(const cm_call *c, size_t a, size_t b, size_t out, fixed *p,
                          void (*row)(const void *, const cm_row *)) {
  cm_loop loop;
  EC_BACKEND_TRY(cm_check(c, a, "self", EC_DTYPE_INT8, -1));
  EC_BACKEND_TRY(cm_check(c, b, "other", EC_DTYPE_INT8, -1));
  EC_BACKEND_TRY(cm_check(c, out, "out", EC_DTYPE_INT8, -1));
  p->a = cm_tensor(c, a)->data;
  p->b = cm_tensor(c, b)->data;
  EC_BACKEND_TRY(cm_loop_of(c, a, b, out, &loop));
  p->out = cm_tensor(c, out)->data;
  cm_loop_run(&loop, row, p);
  return EC_BACKEND_OK;
}

uint32_t cm_quantized_add(const cm_call *c) {
  fixed p = {0};
  EC_BACKEND_TRY(cm_int32(c, 1, "self_zero_point", &p.a_zero));
  EC_BACKEND_TRY(cm_read_factor(c, 2, "self", &p.a_factor));
  EC_BACKEND_TRY(cm_int32(c, 5, "other_zero_point", &p.b_zero));
  EC_BACKEND_TRY(cm_read_factor(c, 6, "other", &p.b_factor));
  EC_BACKEND_TRY(cm_int32(c, 8, "output_zero_point", &p.zero));
  EC_BACKEND_TRY(cm_read_factor(c, 9, "output", &p.factor));
  EC_BACKEND_TRY(cm_int32(c, 11, "activation_min", &p.low));
  EC_BACKEND_TRY(cm_int32(c, 12, "activation_max", &p.high));
  return fixed_run(c, 0, 4, 13, &p, add_row);
}

uint32_t cm_quantized_mul(const cm_call *c) {
  fixed p = {.low = INT8_MIN, .high = INT8_MAX};
  EC_BACKEND_TRY(cm_int32(c, 1, "self_zero_point", &p.a_zero));
  EC_BACKEND_TRY(cm_int32(c, 3, "other_zero_point", &p.b_zero));
  EC_BACKEND_TRY(cm_int32(c, 4, "output_zero_point", &p.zero));
  EC_BACKEND_TRY(cm_read_factor(c, 5, "output", &p.factor));
  return fixed_run(c, 0, 2, 7, &p, mul_row);
}

typedef struct quotient {
  const void *a, *b;
  void *out;
  int32_t a_zero, b_zero;
  float zero, scale, low, high;
} quotient;

/* Returns round((x - zero) / (y - zero) * scale) + zero; 0 / 0 and x / 0 are 0. */
static float quotient_of(const quotient *p, int32_t x, int32_t y) {
  const float a = (float)(int32_t)((uint32_t)x - (uint32_t)p->a_zero);
  const float b = (float)(int32_t)((uint32_t)y - (uint32_t)p->b_zero);
  const float q = nearbyintf((b != 0 ? a / b : 0) * p->scale) + p->zero;
  return cm_clamp_float(q, p->low, p->high);
}

CM_ROW(div_int8, quotient, int8_t, int8_t, int8_t, quotient_of(p, x, y))
CM_ROW(div_int16, quotient, int16_t, int16_t, int16_t, quotient_of(p, x, y))

uint32_t cm_quantized_div(const cm_call *c) {
  const int32_t dtype = cm_tensor(c, 0)->dtype;
  const bool wide = dtype == EC_DTYPE_INT16;
  quotient p = {.scale = (float)c->args[5].as.d, .low = wide ? INT16_MIN : INT8_MIN,
                .high = wide ? INT16_MAX : INT8_MAX};
  int32_t zero;
  cm_loop loop;
  EC_BACKEND_TRY(cm_check(c, 0, "self", wide ? EC_DTYPE_INT16 : EC_DTYPE_INT8, -1));
  EC_BACKEND_TRY(cm_check(c, 2, "other", dtype, -1));
  EC_BACKEND_TRY(cm_check(c, 6, "out", dtype, -1));
  EC_BACKEND_TRY(cm_int32(c, 1, "self_zero_point", &p.a_zero));
  EC_BACKEND_TRY(cm_int32(c, 3, "other_zero_point", &p.b_zero));
  EC_BACKEND_TRY(cm_int32(c, 4, "output_zero_point", &zero));
  p.zero = (float)zero;
  p.a = cm_tensor(c, 0)->data;
  p.b = cm_tensor(c, 2)->data;
  EC_BACKEND_TRY(cm_loop_of(c, 0, 2, 6, &loop));
  p.out = cm_tensor(c, 6)->data;
  cm_loop_run(&loop, wide ? div_int16 : div_int8, &p);
  return EC_BACKEND_OK;
}

/* ---- table, minimum, maximum ------------------------------------------------------------- */

enum { TABLE_SIZE = 256 };

typedef struct table {
  const void *a, *b;
  void *out;
  const int8_t *entries; /* from input -128 */
} table;

CM_ROW(table_row, table, int8_t, int8_t, int8_t, p->entries[x + TABLE_SIZE / 2])

uint32_t cm_quantized_activation(const cm_call *c) {
  cm_loop loop;
  EC_BACKEND_TRY(cm_check(c, 0, "input", EC_DTYPE_INT8, -1));
  EC_BACKEND_TRY(cm_check_vector(c, 1, "lut", EC_DTYPE_INT8, TABLE_SIZE));
  EC_BACKEND_TRY(cm_check(c, 2, "out", EC_DTYPE_INT8, -1));
  table p = {.a = cm_tensor(c, 0)->data, .b = cm_tensor(c, 0)->data,
             .entries = cm_tensor(c, 1)->data};
  EC_BACKEND_TRY(cm_loop_of(c, 0, 0, 2, &loop));
  p.out = cm_tensor(c, 2)->data;
  cm_loop_run(&loop, table_row, &p);
  return EC_BACKEND_OK;
}

/* The functions of one dtype. NaN wins, as in ATen. */
#define CM_EXTREMES(T, suffix, IS_NAN)                                                             \
  CM_ROW(minimum_##suffix, operands, T, T, T, IS_NAN(x) || x < y ? x : y)                          \
  CM_ROW(maximum_##suffix, operands, T, T, T, IS_NAN(x) || x > y ? x : y)
#define CM_NO_NAN(x) false
CM_EXTREMES(int8_t, int8, CM_NO_NAN)
CM_EXTREMES(int16_t, int16, CM_NO_NAN)
CM_EXTREMES(int32_t, int32, CM_NO_NAN)
CM_EXTREMES(float, float32, isnan)

typedef void (*row_fn)(const void *user, const cm_row *row);

static uint32_t extreme_run(const cm_call *c, row_fn by_int8, row_fn by_int16, row_fn by_int32,
                            row_fn by_float32) {
  const int32_t dtype = cm_tensor(c, 0)->dtype;
  const row_fn row = dtype == EC_DTYPE_INT8    ? by_int8
                     : dtype == EC_DTYPE_INT16 ? by_int16
                     : dtype == EC_DTYPE_INT32 ? by_int32
                                               : by_float32;
  cm_loop loop;
  if (row == by_float32) EC_BACKEND_TRY(cm_check(c, 0, "self", EC_DTYPE_FLOAT32, -1));
  EC_BACKEND_TRY(cm_check(c, 1, "other", dtype, -1));
  EC_BACKEND_TRY(cm_check(c, 2, "out", dtype, -1));
  operands p = {.a = cm_tensor(c, 0)->data, .b = cm_tensor(c, 1)->data};
  EC_BACKEND_TRY(cm_loop_of(c, 0, 1, 2, &loop));
  p.out = cm_tensor(c, 2)->data;
  cm_loop_run(&loop, row, &p);
  return EC_BACKEND_OK;
}

uint32_t cm_minimum(const cm_call *c) {
  return extreme_run(c, minimum_int8, minimum_int16, minimum_int32, minimum_float32);
}

uint32_t cm_maximum(const cm_call *c) {
  return extreme_run(c, maximum_int8, maximum_int16, maximum_int32, maximum_float32);
}
