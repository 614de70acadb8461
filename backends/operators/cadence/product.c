/* Products of matrices. */
#include "product.h"

#include "binary.h"
#include "dot.h"

enum { TILE = 32 /* columns of a task */ };

/* A product [rows, inner] x [columns, inner]^T of each of `batches` matrices. */
typedef struct product {
  float *a, *b, *bias; /* bias by column; NULL: none */
  const cad_tensor *x, *y, *out;
  int64_t batches, rows, columns, inner;
  size_t rank; /* of the batches */
  int64_t sizes[CAD_RANK];
  int64_t by_column, by_inner; /* strides of b */
  cad_finish finish;
} product;

/* Computes up to TILE columns of a row. */
static void product_tile(const product *p, const float *a, const float *b, int64_t first,
                         int64_t count, float *values) {
  for (int64_t k = 0; k < count; k++) {
    const float *column = b + (first + k) * p->by_column;
    double sum = 0;
    if (p->by_inner == 1) sum = cad_dot(a, column, p->inner);
    else
      for (int64_t i = 0; i < p->inner; i++) sum += (double)a[i] * (double)column[i * p->by_inner];
    if (p->bias) sum += (double)p->bias[first + k];
    values[k] = cad_finish_sum(&p->finish, sum);
  }
}

static void product_tiles(void *user, size_t begin, size_t end) {
  const product *p = user;
  const int64_t tiles = (p->columns + TILE - 1) / TILE;
  float values[TILE];
  for (int64_t task = (int64_t)begin; task < (int64_t)end; task++) {
    const int64_t row = task / tiles, first = task % tiles * TILE, batch = row / p->rows;
    const int64_t left = p->columns - first, count = left < TILE ? left : TILE;
    const float *a = p->a + cad_broadcast_index(p->x, 2, p->rank, p->sizes, batch) +
                     row % p->rows * p->inner;
    const float *b = p->b;
    if (p->y) b += cad_broadcast_index(p->y, 2, p->rank, p->sizes, batch);
    product_tile(p, a, b, first, count, values);
    cad_store(p->out, row * p->columns + first, 1, count, values);
  }
}

static void product_run(const cad_call *c, product *p) {
  const int64_t tiles = (p->columns + TILE - 1) / TILE;
  EC_ARG_PARALLEL(c, p->batches * p->rows * tiles, TILE * ((double)p->inner + 1), product_tiles, p);
}

/* ---- linear ------------------------------------------------------------------------------ */

/* Sets the product of the tensors 0 and 1, weights [columns, inner], and resizes the output. The
 * input is one matrix, whatever its rank. */
static uint32_t linear_set(const cad_call *c, uint32_t weights, size_t out, product *p,
                           const cad_tensor **w) {
  int64_t sizes[CAD_RANK];
  EC_BACKEND_TRY(EC_ARG_TENSOR(c, 1, "weight", weights, 2, w));
  if (p->x->rank < 1) return EC_ARG_FAIL(c, "the input has no dimensions, expected 1 or more");
  p->inner = p->x->sizes[p->x->rank - 1];
  p->batches = p->rows = 1;
  for (size_t d = 0; d + 1 < p->x->rank; d++) p->rows *= sizes[d] = p->x->sizes[d];
  p->columns = (*w)->sizes[0];
  p->by_column = p->inner;
  p->by_inner = 1;
  if ((*w)->sizes[1] != p->inner)
    return EC_ARG_FAIL(c, "the input has %lld features, 'weight' takes %lld", (long long)p->inner,
                       (long long)(*w)->sizes[1]);
  sizes[p->x->rank - 1] = p->columns;
  return EC_ARG_OUTPUT(c, out, EC_ARG_SET(p->x->dtype), p->x->rank, sizes, &p->out);
}

uint32_t cad_quantized_linear(const cad_call *c) {
  product p = {.finish = {.quantizes = true, .scale = 1}};
  const cad_tensor *w, *bias;
  double factor;
  int32_t zero, weight_zero, out_zero;
  EC_BACKEND_TRY(EC_ARG_TENSOR(c, 0, "src", c->dtypes, -1, &p.x));
  EC_BACKEND_TRY(cad_int(c, 3, "src_zero_point", &zero));
  EC_BACKEND_TRY(cad_int(c, 4, "weight_zero_point", &weight_zero));
  EC_BACKEND_TRY(cad_read_factor(c, 5, &factor));
  EC_BACKEND_TRY(cad_int(c, 7, "out_zero_point", &out_zero));
  p.finish.q = cad_quantizer_of(factor, out_zero, p.x->dtype);
  EC_BACKEND_TRY(linear_set(c, c->dtypes == CAD_QUANTIZED ? CAD_QUANTIZED : c->dtypes, 9, &p, &w));
  EC_BACKEND_TRY(cad_vector(c, 2, "bias", EC_ARG_SET(EC_DTYPE_INT32), p.columns, &bias));
  EC_BACKEND_TRY(cad_floats(c, p.x, (float)zero, &p.a));
  EC_BACKEND_TRY(cad_floats(c, w, (float)weight_zero, &p.b));
  EC_BACKEND_TRY(cad_floats(c, bias, 0, &p.bias));
  product_run(c, &p);
  return EC_BACKEND_OK;
}

uint32_t cad_quantized_fully_connected(const cad_call *c) {
  const cad_tensor *x;
  EC_BACKEND_TRY(EC_ARG_TENSOR(c, 0, "src", c->dtypes, -1, &x));
  if (x->rank < 1 || x->sizes[0] != 1)
    return EC_ARG_FAIL(c, "'src' has %lld rows, expected 1", x->rank ? (long long)x->sizes[0] : 0);
  return cad_quantized_linear(c);
}

uint32_t cad_fully_connected(const cad_call *c) {
  product p = {0};
  const cad_tensor *w, *bias;
  EC_BACKEND_TRY(EC_ARG_TENSOR(c, 0, "input", CAD_FLOAT, -1, &p.x));
  EC_BACKEND_TRY(linear_set(c, CAD_FLOAT, 3, &p, &w));
  p.a = p.x->data;
  p.b = w->data;
  if (cad_is_tensor(c, 2)) {
    EC_BACKEND_TRY(cad_vector(c, 2, "bias", CAD_FLOAT, p.columns, &bias));
    p.bias = bias->data;
  }
  product_run(c, &p);
  return EC_BACKEND_OK;
}

/* Weights [inner, columns] and bias of int8, each with a scale; a vector as input. */
uint32_t cad_w8a32_linear(const cad_call *c) {
  product p = {.batches = 1, .rows = 1, .by_inner = 0};
  const cad_tensor *w, *bias;
  double scales[2];
  float *values[2];
  int64_t sizes[CAD_RANK];
  EC_BACKEND_TRY(EC_ARG_TENSOR(c, 0, "input", CAD_FLOAT, -1, &p.x));
  EC_BACKEND_TRY(EC_ARG_TENSOR(c, 1, "weight", EC_ARG_SET(EC_DTYPE_INT8), 2, &w));
  EC_BACKEND_TRY(cad_scale(c, 2, "w_scale", &scales[0]));
  EC_BACKEND_TRY(cad_vector(c, 3, "bias", EC_ARG_SET(EC_DTYPE_INT8), w->sizes[1], &bias));
  EC_BACKEND_TRY(cad_scale(c, 4, "b_scale", &scales[1]));
  const size_t last = p.x->rank - 1u;
  if (p.x->rank < 1 || p.x->sizes[last] != w->sizes[0])
    return EC_ARG_FAIL(c, "the input has %lld features, 'weight' takes %lld",
                       p.x->rank ? (long long)p.x->sizes[last] : 0, (long long)w->sizes[0]);
  if (last && p.x->sizes[last - 1] != 1)
    return EC_ARG_FAIL(c, "the input has %lld rows, expected 1", (long long)p.x->sizes[last - 1]);
  for (size_t d = 0; d < last; d++) p.rows *= sizes[d] = p.x->sizes[d];
  sizes[last] = p.columns = p.by_inner = w->sizes[1];
  p.inner = w->sizes[0];
  p.by_column = 1;
  EC_BACKEND_TRY(EC_ARG_OUTPUT(c, 5, CAD_FLOAT, p.x->rank, sizes, &p.out));
  EC_BACKEND_TRY(cad_floats(c, w, 0, &values[0]));
  EC_BACKEND_TRY(cad_floats(c, bias, 0, &values[1]));
  for (int64_t i = 0; i < ec_arg_count(w); i++) values[0][i] *= (float)scales[0];
  for (int64_t i = 0; i < ec_arg_count(bias); i++) values[1][i] *= (float)scales[1];
  p.a = p.x->data, p.b = values[0], p.bias = values[1];
  product_run(c, &p);
  return EC_BACKEND_OK;
}

/* ---- matmul ------------------------------------------------------------------------------ */

/* Sets the sizes of X [..., rows, inner] and Y [..., inner, columns], or [..., columns, inner]. */
static uint32_t matmul_set(const cad_call *c, product *p) {
  const bool transposed = c->args[8].as.b;
  const cad_tensor *x = p->x, *y = p->y;
  if (x->rank < 2 || y->rank < 2)
    return EC_ARG_FAIL(c, "'X' has %u and 'Y' %u dimensions, expected 2 or more", (unsigned)x->rank,
                       (unsigned)y->rank);
  const int64_t *from = y->sizes + y->rank - 2;
  p->rows = x->sizes[x->rank - 2];
  p->inner = x->sizes[x->rank - 1];
  p->columns = from[!transposed];
  p->by_column = transposed ? p->inner : 1;
  p->by_inner = transposed ? 1 : p->columns;
  if (from[transposed] != p->inner)
    return EC_ARG_FAIL(c, "'X' has %lld columns, 'Y' %lld rows", (long long)p->inner,
                       (long long)from[transposed]);
  EC_BACKEND_TRY(cad_broadcast(c, x, y, 2, &p->rank, p->sizes));
  p->batches = 1;
  for (size_t d = 0; d < p->rank; d++) p->batches *= p->sizes[d];
  p->sizes[p->rank] = p->rows;
  p->sizes[p->rank + 1] = p->columns;
  return EC_BACKEND_OK;
}

/* Checks that the bias, which nothing reads, is zero. */
static uint32_t matmul_bias(const cad_call *c) {
  const cad_tensor *bias;
  float value;
  if (!cad_is_tensor(c, 4)) return EC_BACKEND_OK;
  EC_BACKEND_TRY(EC_ARG_TENSOR(c, 4, "bias", CAD_QUANTIZED | CAD_FLOAT, -1, &bias));
  for (int64_t i = 0; i < ec_arg_count(bias); i++) {
    cad_load(bias, i, 1, 1, 0, &value);
    if (value != 0) return EC_ARG_FAIL(c, "'bias' is %g, expected 0 or None", (double)value);
  }
  return EC_BACKEND_OK;
}

uint32_t cad_quantized_matmul(const cad_call *c) {
  product p = {.finish = {.quantizes = true, .scale = 1}};
  double factor;
  int32_t x_zero, y_zero, zero;
  EC_BACKEND_TRY(EC_ARG_TENSOR(c, 0, "X", c->dtypes, -1, &p.x));
  EC_BACKEND_TRY(cad_int(c, 1, "X_zero_point", &x_zero));
  EC_BACKEND_TRY(EC_ARG_TENSOR(c, 2, "Y", c->dtypes, -1, &p.y));
  EC_BACKEND_TRY(cad_int(c, 3, "Y_zero_point", &y_zero));
  EC_BACKEND_TRY(matmul_bias(c));
  EC_BACKEND_TRY(cad_read_factor(c, 5, &factor));
  EC_BACKEND_TRY(cad_int(c, 7, "out_zero_point", &zero));
  EC_BACKEND_TRY(matmul_set(c, &p));
  EC_BACKEND_TRY(EC_ARG_OUTPUT(c, 9, EC_ARG_SET(p.x->dtype), p.rank + 2, p.sizes, &p.out));
  EC_BACKEND_TRY(cad_floats(c, p.x, (float)x_zero, &p.a));
  EC_BACKEND_TRY(cad_floats(c, p.y, (float)y_zero, &p.b));
  p.finish.q = cad_quantizer_of(factor, zero, p.x->dtype);
  product_run(c, &p);
  return EC_BACKEND_OK;
}
