/* Operators that compute each element by itself. */
#include "pointwise.h"

#include "quantize.h"

/* One input: its elements less `zero` pass through `step` in blocks. */
typedef struct pointwise {
  const cad_tensor *in, *out;
  float zero, scale, operand, other;
  cad_quantizer q;
  void (*step)(const struct pointwise *p, float *values, int64_t n);
} pointwise;

static void pointwise_blocks(void *user, size_t begin, size_t end) {
  const pointwise *p = user;
  float values[CAD_BLOCK];
  for (int64_t at = (int64_t)begin; at < (int64_t)end; at += CAD_BLOCK) {
    const int64_t left = (int64_t)end - at, n = left < CAD_BLOCK ? left : CAD_BLOCK;
    cad_load(p->in, at, 1, n, p->zero, values);
    p->step(p, values, n);
    cad_store(p->out, at, 1, n, values);
  }
}

/* Resizes output `i` to the shape of the input and computes it. */
static uint32_t pointwise_run(const cad_call *c, size_t i, uint32_t dtypes, pointwise *p) {
  EC_BACKEND_TRY(EC_ARG_OUTPUT(c, i, dtypes, p->in->rank, p->in->sizes, &p->out));
  EC_ARG_PARALLEL(c, ec_arg_count(p->in), 1, pointwise_blocks, p);
  return EC_BACKEND_OK;
}

static void step_quantize(const pointwise *p, float *values, int64_t n) {
  for (int64_t i = 0; i < n; i++) values[i] = cad_quantize(&p->q, values[i]);
}

static void step_scale(const pointwise *p, float *values, int64_t n) {
  for (int64_t i = 0; i < n; i++) values[i] *= p->scale;
}

static void step_requantize(const pointwise *p, float *values, int64_t n) {
  for (int64_t i = 0; i < n; i++) values[i] = cad_quantize(&p->q, values[i] * p->scale);
}

static void step_relu(const pointwise *p, float *values, int64_t n) {
  for (int64_t i = 0; i < n; i++)
    values[i] = cad_quantize(&p->q, values[i] > 0 ? values[i] : 0);
}

static void step_add(const pointwise *p, float *values, int64_t n) {
  for (int64_t i = 0; i < n; i++)
    values[i] = cad_quantize(&p->q, values[i] * p->scale + p->operand);
}

static void step_multiply(const pointwise *p, float *values, int64_t n) {
  for (int64_t i = 0; i < n; i++)
    values[i] = cad_quantize(&p->q, values[i] * p->scale * p->operand);
}

static void step_where(const pointwise *p, float *values, int64_t n) {
  for (int64_t i = 0; i < n; i++) values[i] = values[i] != 0 ? p->operand : p->other;
}

/* ---- quantize, dequantize, requantize ---------------------------------------------------- */

/* Checks quant_min and quant_max, the arguments 3 and 4. */
static uint32_t affine_limits(const cad_call *c, cad_quantizer *q) {
  const int64_t low = c->args[3].as.i, high = c->args[4].as.i;
  if (low > high || (double)low < (double)q->low || high > INT32_MAX ||
      (q->high < 65536 && (double)high > (double)q->high))
    return EC_ARG_FAIL(c, "'quant_min' is %lld and 'quant_max' %lld, beyond the dtype",
                       (long long)low, (long long)high);
  q->low = (float)low;
  if ((float)high < q->high) q->high = (float)high;
  return EC_BACKEND_OK;
}

/* Checks the argument 'dtype', which repeats that of a tensor. */
static uint32_t affine_dtype(const cad_call *c, const cad_tensor *t) {
  if (c->args[5].as.i == t->dtype) return EC_BACKEND_OK;
  return EC_ARG_FAIL(c, "'dtype' is %lld and the quantized tensor has ScalarType %d",
                     (long long)c->args[5].as.i, t->dtype);
}

uint32_t cad_quantize_per_tensor(const cad_call *c) {
  pointwise p = {.step = step_quantize};
  double scale;
  int32_t zero;
  EC_BACKEND_TRY(EC_ARG_TENSOR(c, 0, "input", CAD_FLOAT, -1, &p.in));
  EC_BACKEND_TRY(cad_scale(c, 1, "scale", &scale));
  EC_BACKEND_TRY(cad_int(c, 2, "zero_point", &zero));
  EC_BACKEND_TRY(EC_ARG_TENSOR(c, 6, "out", c->dtypes, -1, &p.out));
  EC_BACKEND_TRY(affine_dtype(c, p.out));
  p.q = cad_quantizer_of(1.0 / scale, zero, p.out->dtype);
  EC_BACKEND_TRY(affine_limits(c, &p.q));
  return pointwise_run(c, 6, c->dtypes, &p);
}

uint32_t cad_dequantize_per_tensor(const cad_call *c) {
  pointwise p = {.step = step_scale};
  double scale;
  int32_t zero;
  EC_BACKEND_TRY(EC_ARG_TENSOR(c, 0, "input", c->dtypes, -1, &p.in));
  EC_BACKEND_TRY(cad_scale(c, 1, "scale", &scale));
  EC_BACKEND_TRY(cad_int(c, 2, "zero_point", &zero));
  EC_BACKEND_TRY(affine_dtype(c, p.in));
  p.q = cad_quantizer_of(1, 0, p.in->dtype);
  EC_BACKEND_TRY(affine_limits(c, &p.q));
  p.zero = (float)zero;
  p.scale = (float)scale;
  return pointwise_run(c, 6, CAD_FLOAT, &p);
}

uint32_t cad_requantize(const cad_call *c) {
  pointwise p = {.step = step_requantize};
  double in, out;
  int32_t zero, out_zero;
  EC_BACKEND_TRY(EC_ARG_TENSOR(c, 0, "input", c->dtypes, -1, &p.in));
  EC_BACKEND_TRY(cad_scale(c, 1, "in_scale", &in));
  EC_BACKEND_TRY(cad_int(c, 2, "in_zero_point", &zero));
  EC_BACKEND_TRY(cad_scale(c, 3, "out_scale", &out));
  EC_BACKEND_TRY(cad_int(c, 4, "out_zero_point", &out_zero));
  EC_BACKEND_TRY(EC_ARG_TENSOR(c, 6, "out", c->dtypes, -1, &p.out));
  EC_BACKEND_TRY(affine_dtype(c, p.out));
  p.zero = (float)zero;
  p.scale = (float)in;
  p.q = cad_quantizer_of(1.0 / out, out_zero, p.out->dtype);
  return pointwise_run(c, 6, c->dtypes, &p);
}

/* ---- relu, add, mul, where --------------------------------------------------------------- */

uint32_t cad_quantized_relu(const cad_call *c) {
  pointwise p = {.step = step_relu};
  double factor;
  int32_t zero, out_zero;
  EC_BACKEND_TRY(EC_ARG_TENSOR(c, 0, "X", c->dtypes, -1, &p.in));
  EC_BACKEND_TRY(cad_int(c, 1, "X_zero_point", &zero));
  EC_BACKEND_TRY(cad_int(c, 2, "out_zero_point", &out_zero));
  EC_BACKEND_TRY(cad_read_factor(c, 3, &factor));
  p.zero = (float)zero;
  p.q = cad_quantizer_of(factor, out_zero, p.in->dtype);
  return pointwise_run(c, 5, EC_ARG_SET(p.in->dtype), &p);
}

/* Reads the Scalar argument `i` as a float. */
static float scalar_of(const cad_call *c, size_t i) {
  switch (c->args[i].kind) {
  case EC_BACKEND_DOUBLE: return (float)c->args[i].as.d;
  case EC_BACKEND_BOOL: return c->args[i].as.b;
  default: return (float)c->args[i].as.i;
  }
}

static uint32_t scalar_run(const cad_call *c, pointwise *p) {
  double scale, out_scale;
  int32_t zero, out_zero;
  EC_BACKEND_TRY(EC_ARG_TENSOR(c, 0, "X", c->dtypes, -1, &p->in));
  EC_BACKEND_TRY(cad_scale(c, 1, "X_scale", &scale));
  EC_BACKEND_TRY(cad_int(c, 2, "X_zero_point", &zero));
  EC_BACKEND_TRY(cad_scale(c, 4, "out_scale", &out_scale));
  EC_BACKEND_TRY(cad_int(c, 5, "out_zero_point", &out_zero));
  p->zero = (float)zero;
  p->scale = (float)scale;
  p->operand = scalar_of(c, 3);
  p->q = cad_quantizer_of(1.0 / out_scale, out_zero, p->in->dtype);
  return pointwise_run(c, 6, EC_ARG_SET(p->in->dtype), p);
}

uint32_t cad_quantized_add_scalar(const cad_call *c) {
  pointwise p = {.step = step_add};
  return scalar_run(c, &p);
}

uint32_t cad_quantized_mul_scalar(const cad_call *c) {
  pointwise p = {.step = step_multiply};
  return scalar_run(c, &p);
}

uint32_t cad_where_scalar(const cad_call *c) {
  pointwise p = {.step = step_where, .operand = (float)c->args[1].as.d,
                 .other = (float)c->args[2].as.d};
  EC_BACKEND_TRY(EC_ARG_TENSOR(c, 0, "condition", c->dtypes, -1, &p.in));
  return pointwise_run(c, 3, CAD_FLOAT, &p);
}
