/* Operators on single elements. */
#include <string.h>

#include "operators.h"
#include "quantize.h"

enum { GRAIN = 4096 };

/* ---- float32 --------------------------------------------------------------------------------- */

typedef struct unary {
  float (*fn)(float x, float parameter);
  float parameter;
  const float *x;
  float *out;
} unary;

static float hardswish(float x, float unused) {
  (void)unused;
  return x * fminf(fmaxf(x + 3.0f, 0.0f), 6.0f) / 6.0f;
}

static float hardsigmoid(float x, float unused) {
  (void)unused;
  return fminf(fmaxf(x + 3.0f, 0.0f), 6.0f) / 6.0f;
}

/* NaN stays: it is in no interval. */
static float hardshrink(float x, float lambd) { return x >= -lambd && x <= lambd ? 0.0f : x; }

static void run_unary(void *user, size_t begin, size_t end) {
  const unary *u = user;
  for (size_t i = begin; i < end; i++)
    u->out[i] = isnan(u->x[i]) ? u->x[i] : u->fn(u->x[i], u->parameter);
}

static uint32_t apply_unary(const evo_call *c, size_t out, float (*fn)(float, float),
                            double parameter) {
  const ec_backend_tensor *x;
  unary u = {.fn = fn, .parameter = (float)parameter};
  EC_BACKEND_TRY(evo_tensor(c, 0, EC_DTYPE_FLOAT32, 0, &x));
  EC_BACKEND_TRY(evo_output(c, out, EC_DTYPE_FLOAT32, x->rank, x->sizes, &u.out));
  u.x = x->data;
  c->host->parallel_for(c->call, (size_t)ec_arg_count(x), GRAIN, run_unary, &u);
  return EC_BACKEND_OK;
}

uint32_t evo_hardswish(const evo_call *c) { return apply_unary(c, 1, hardswish, 0); }

uint32_t evo_hardsigmoid(const evo_call *c) { return apply_unary(c, 1, hardsigmoid, 0); }

uint32_t evo_hardshrink(const evo_call *c) {
  const ec_backend_arg *lambd = &c->args[1];
  return apply_unary(c, 2, hardshrink,
                     lambd->kind == EC_BACKEND_INT ? (double)lambd->as.i : lambd->as.d);
}

/* ---- int8 ------------------------------------------------------------------------------------ */

/* The affine parameters at arguments `i` and `i` + 1. */
static evo_affine affine_at(const evo_call *c, size_t i) {
  return evo_affine_of(c->args[i].as.d, c->args[i + 1].as.i);
}

/* Strides of a tensor broadcast to `out`, in elements. */
static uint32_t broadcast_strides(const evo_call *c, const ec_backend_tensor *t,
                                  const ec_backend_tensor *out, int64_t strides[16]) {
  int64_t step = 1;
  memset(strides, 0, 16 * sizeof *strides);
  for (size_t d = out->rank, k = t->rank; k-- > 0;) {
    d--;
    if (t->sizes[k] != 1 && t->sizes[k] != out->sizes[d])
      return EC_ARG_FAIL(c, "a size of %lld does not broadcast to %lld", (long long)t->sizes[k],
                         (long long)out->sizes[d]);
    strides[d] = t->sizes[k] == 1 ? 0 : step;
    step *= t->sizes[k];
  }
  return EC_BACKEND_OK;
}

static uint32_t resize_broadcast(const evo_call *c, const ec_backend_tensor *a,
                                 const ec_backend_tensor *b, size_t out, int8_t **data) {
  int64_t sizes[16];
  const size_t rank = a->rank > b->rank ? a->rank : b->rank;
  for (size_t d = 0; d < rank; d++) {
    const int64_t x = d + a->rank < rank ? 1 : a->sizes[d + a->rank - rank];
    const int64_t y = d + b->rank < rank ? 1 : b->sizes[d + b->rank - rank];
    sizes[d] = x == 1 ? y : x;
  }
  return evo_output(c, out, EC_DTYPE_INT8, rank, sizes, data);
}

uint32_t evo_q8ta_add(const evo_call *c) {
  const ec_backend_tensor *a, *b, *out = &c->args[9].as.tensor;
  int64_t at_a[16], at_b[16], index[16] = {0}, i = 0, j = 0;
  int8_t *to;
  EC_BACKEND_TRY(evo_tensor(c, 0, EC_DTYPE_INT8, 0, &a));
  EC_BACKEND_TRY(evo_tensor(c, 1, EC_DTYPE_INT8, 0, &b));
  EC_BACKEND_TRY(resize_broadcast(c, a, b, 9, &to));
  EC_BACKEND_TRY(broadcast_strides(c, a, out, at_a));
  EC_BACKEND_TRY(broadcast_strides(c, b, out, at_b));
  const evo_affine qa = affine_at(c, 2), qb = affine_at(c, 4), qo = affine_at(c, 6);
  const float alpha = (float)c->args[8].as.d;
  const int8_t *from_a = a->data, *from_b = b->data;
  for (int64_t n = ec_arg_count(out); n-- > 0;) {
    const float sum = evo_dequantize(from_a[i], &qa) + alpha * evo_dequantize(from_b[j], &qb);
    *to++ = evo_quantize(sum, &qo);
    for (size_t d = out->rank; d-- > 0;) {
      i += at_a[d];
      j += at_b[d];
      if (++index[d] < out->sizes[d]) break;
      i -= at_a[d] * out->sizes[d];
      j -= at_b[d] * out->sizes[d];
      index[d] = 0;
    }
  }
  return EC_BACKEND_OK;
}

uint32_t evo_q8ta_relu(const evo_call *c) {
  const ec_backend_tensor *x;
  int8_t *to;
  EC_BACKEND_TRY(evo_tensor(c, 0, EC_DTYPE_INT8, 0, &x));
  EC_BACKEND_TRY(evo_output(c, 5, EC_DTYPE_INT8, x->rank, x->sizes, &to));
  const evo_affine in = affine_at(c, 1), out = affine_at(c, 3);
  const int8_t *from = x->data;
  for (int64_t i = 0; i < ec_arg_count(x); i++)
    to[i] = evo_quantize(fmaxf(evo_dequantize(from[i], &in), 0.0f), &out);
  return EC_BACKEND_OK;
}

uint32_t evo_q8ta_pixel_shuffle(const evo_call *c) {
  const ec_backend_tensor *x;
  int8_t *to;
  int64_t sizes[16];
  const int64_t f = c->args[5].as.i;
  EC_BACKEND_TRY(evo_tensor(c, 0, EC_DTYPE_INT8, 3, &x));
  const size_t r = x->rank;
  if (f < 1 || f > 4096 || x->sizes[r - 3] % (f * f))
    return EC_ARG_FAIL(c, "%lld channels do not divide by the square of the factor %lld",
                       (long long)x->sizes[r - 3], (long long)f);
  memcpy(sizes, x->sizes, r * sizeof *sizes);
  sizes[r - 3] /= f * f;
  sizes[r - 2] *= f;
  sizes[r - 1] *= f;
  EC_BACKEND_TRY(evo_output(c, 6, EC_DTYPE_INT8, r, sizes, &to));
  const evo_affine in = affine_at(c, 1);
  const evo_affine out = evo_affine_of(1.0 / c->args[3].as.d, c->args[4].as.i);
  const int64_t h = x->sizes[r - 2], w = x->sizes[r - 1];
  const int8_t *from = x->data;
  for (int64_t i = 0; i < ec_arg_count(x); i++) {
    const int64_t column = i % (w * f), line = i / (w * f) % (h * f), plane = i / (w * f * h * f);
    const int64_t channel = plane * f * f + line % f * f + column % f;
    to[i] = evo_quantize(evo_dequantize(from[(channel * h + line / f) * w + column / f], &in),
                         &out);
  }
  return EC_BACKEND_OK;
}

uint32_t evo_grid_priors(const evo_call *c) {
  const ec_backend_tensor *x = &c->args[0].as.tensor;
  float *to;
  if (x->rank < 2) return EC_ARG_FAIL(c, "'self' has %u dimensions, expected 2 or more", x->rank);
  const int64_t h = x->sizes[x->rank - 2], w = x->sizes[x->rank - 1], sizes[] = {h * w, 2};
  EC_BACKEND_TRY(evo_output(c, 3, EC_DTYPE_FLOAT32, 2, sizes, &to));
  const float stride = (float)c->args[1].as.i, offset = (float)c->args[2].as.d;
  for (int64_t i = 0; i < h * w; i++) {
    *to++ = ((float)(i % w) + offset) * stride;
    *to++ = ((float)(i / w) + offset) * stride;
  }
  return EC_BACKEND_OK;
}
