/* Normalisation and softmax: rows of floats, computed in place. Sums are double. */
#include "norm.h"

#include "dot.h"

#include <float.h>

typedef struct norm {
  const cad_tensor *in, *out;
  float *x, *weight, *bias; /* bias: layer norm */
  float scale;              /* of the input */
  double eps;
  int64_t length, inner; /* of a row, and the step between its elements */
  cad_finish finish;
  void (*row)(const struct norm *p, float *x);
} norm;

static void norm_rows(void *user, size_t begin, size_t end) {
  const norm *p = user;
  for (int64_t i = (int64_t)begin; i < (int64_t)end; i++) {
    const int64_t at = i / p->inner * p->length * p->inner + i % p->inner;
    float *x = p->x + at;
    for (int64_t k = 0; k < p->length; k++) x[k * p->inner] *= p->scale;
    p->row(p, x);
    if (p->finish.quantizes)
      for (int64_t k = 0; k < p->length; k++)
        x[k * p->inner] = cad_quantize(&p->finish.q, x[k * p->inner]);
    for (int64_t k = 0; k < p->length; k++)
      cad_store(p->out, at + k * p->inner, 1, 1, x + k * p->inner);
  }
}

/* Resizes the output to the shape of the input and computes its rows. */
static uint32_t norm_run(const cad_call *c, float zero, norm *p) {
  const int64_t step = p->length ? p->length : 1;
  EC_BACKEND_TRY(
      EC_ARG_OUTPUT(c, c->count - 1, EC_ARG_SET(p->in->dtype), p->in->rank, p->in->sizes, &p->out));
  EC_BACKEND_TRY(cad_floats(c, p->in, zero, &p->x));
  EC_ARG_PARALLEL(c, ec_arg_count(p->in) / step, (double)p->length * 8, norm_rows, p);
  return EC_BACKEND_OK;
}

/* ---- layer norm, rms norm ---------------------------------------------------------------- */

static void layer_norm_row(const norm *p, float *x) {
  double sum = 0, squares = 0;
  for (int64_t k = 0; k < p->length; k++) sum += (double)x[k];
  const double mean = sum / (double)p->length;
  for (int64_t k = 0; k < p->length; k++) {
    const double difference = (double)x[k] - mean;
    squares += difference * difference;
  }
  const double factor = 1 / sqrt(squares / (double)p->length + p->eps);
  for (int64_t k = 0; k < p->length; k++)
    x[k] = (float)(((double)x[k] - mean) * factor) * p->weight[k] + p->bias[k];
}

static void rms_norm_row(const norm *p, float *x) {
  const double squares = cad_dot(x, x, p->length);
  const float factor = (float)(1 / sqrt(squares / (double)p->length + p->eps));
  for (int64_t k = 0; k < p->length; k++) x[k] = x[k] * factor * (p->weight ? p->weight[k] : 1);
}

/* Checks normalized_shape, argument `i`, and sets the length of a row. */
static uint32_t norm_shape(const cad_call *c, size_t i, norm *p) {
  const size_t count = c->args[i].as.list.count, rank = p->in->rank;
  bool same = count > 0 && count <= rank;
  p->length = p->inner = 1;
  for (size_t d = 0; same && d < count; d++) {
    const int64_t size = p->in->sizes[rank - count + d];
    same = c->args[i].as.list.items[d].as.i == size;
    p->length *= size;
  }
  if (same) return EC_BACKEND_OK;
  return EC_ARG_FAIL(c, "'normalized_shape' is not that of the last %zu dimensions of the input",
                     count);
}

uint32_t cad_quantized_layer_norm(const cad_call *c) {
  norm p = {.row = layer_norm_row, .eps = c->args[6].as.d, .finish.quantizes = true};
  const cad_tensor *weight, *bias;
  double scale, out_scale;
  int32_t zero, out_zero;
  EC_BACKEND_TRY(EC_ARG_TENSOR(c, 0, "X", c->dtypes, -1, &p.in));
  EC_BACKEND_TRY(cad_scale(c, 1, "X_scale", &scale));
  EC_BACKEND_TRY(cad_int(c, 2, "X_zero_point", &zero));
  EC_BACKEND_TRY(norm_shape(c, 3, &p));
  EC_BACKEND_TRY(cad_vector(c, 4, "weight", CAD_FLOAT, p.length, &weight));
  EC_BACKEND_TRY(cad_vector(c, 5, "bias", CAD_FLOAT, p.length, &bias));
  EC_BACKEND_TRY(cad_scale(c, 7, "output_scale", &out_scale));
  EC_BACKEND_TRY(cad_int(c, 8, "output_zero_point", &out_zero));
  p.weight = weight->data;
  p.bias = bias->data;
  p.scale = (float)scale;
  p.finish.q = cad_quantizer_of(1.0 / out_scale, out_zero, p.in->dtype);
  return norm_run(c, (float)zero, &p);
}

uint32_t cad_rms_norm(const cad_call *c) {
  norm p = {.row = rms_norm_row, .scale = 1, .eps = FLT_EPSILON};
  const cad_tensor *weight;
  EC_BACKEND_TRY(EC_ARG_TENSOR(c, 0, "input", CAD_FLOAT, -1, &p.in));
  EC_BACKEND_TRY(norm_shape(c, 1, &p));
  if (cad_is_tensor(c, 2)) {
    EC_BACKEND_TRY(cad_vector(c, 2, "weight", CAD_FLOAT, p.length, &weight));
    p.weight = weight->data;
  }
  if (c->args[3].kind == EC_BACKEND_DOUBLE) p.eps = c->args[3].as.d;
  return norm_run(c, 0, &p);
}

/* ---- softmax ----------------------------------------------------------------------------- */

static void softmax_row(const norm *p, float *x) {
  float most = -INFINITY;
  double sum = 0;
  for (int64_t k = 0; k < p->length; k++)
    if (x[k * p->inner] > most) most = x[k * p->inner];
  for (int64_t k = 0; k < p->length; k++) {
    const float value = expf(x[k * p->inner] - most);
    x[k * p->inner] = value;
    sum += (double)value;
  }
  for (int64_t k = 0; k < p->length; k++)
    x[k * p->inner] = (float)((double)x[k * p->inner] / sum);
}

/* Reads the dimension, argument `i`. */
static uint32_t softmax_dim(const cad_call *c, size_t i, norm *p) {
  size_t dim;
  EC_BACKEND_TRY(cad_dim(c, i, p->in->rank, &dim));
  p->length = p->in->sizes[dim];
  p->inner = 1;
  for (size_t d = dim + 1; d < p->in->rank; d++) p->inner *= p->in->sizes[d];
  return EC_BACKEND_OK;
}

uint32_t cad_softmax(const cad_call *c) {
  norm p = {.row = softmax_row, .scale = 1};
  EC_BACKEND_TRY(EC_ARG_TENSOR(c, 0, "self", CAD_FLOAT, -1, &p.in));
  EC_BACKEND_TRY(softmax_dim(c, 1, &p));
  if (c->args[2].kind == EC_BACKEND_BOOL && c->args[2].as.b)
    return EC_ARG_FAIL(c, "'half_to_float' is true, expected false for float32");
  return norm_run(c, 0, &p);
}

/* The flow makes no mask: the arguments `mask` and `pos` are not read. */
uint32_t cad_quantized_softmax(const cad_call *c) {
  norm p = {.row = softmax_row, .finish.quantizes = true};
  double scale, out_scale;
  int32_t zero, out_zero;
  EC_BACKEND_TRY(EC_ARG_TENSOR(c, 0, "input", c->dtypes, -1, &p.in));
  EC_BACKEND_TRY(softmax_dim(c, 2, &p));
  if (c->args[3].as.i)
    return EC_ARG_FAIL(c, "'mask_type' is %lld, expected 0: no mask", (long long)c->args[3].as.i);
  EC_BACKEND_TRY(cad_scale(c, 5, "in_scale", &scale));
  EC_BACKEND_TRY(cad_int(c, 6, "in_zero_point", &zero));
  EC_BACKEND_TRY(cad_scale(c, 7, "out_scale", &out_scale));
  EC_BACKEND_TRY(cad_int(c, 8, "out_zero_point", &out_zero));
  p.scale = (float)scale;
  p.finish.q = cad_quantizer_of(1.0 / out_scale, out_zero, p.in->dtype);
  return norm_run(c, (float)zero, &p);
}
