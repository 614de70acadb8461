/* Products of rows with quantised weights.
 *
 * Weights are decoded to float32 in blocks, each used for all rows: the accuracy is that of float32
 * arithmetic on dequantised weights, as in eager. */
#include <string.h>

#include "operators.h"
#include "quantize.h"

enum { BLOCK = 256 };

/* Weights of one output channel as float32: K of them in `row`, of channel `n`. */
typedef enum encoding { INT8_ROWS, NIBBLES_HIGH_FIRST, NIBBLES_LOW_FIRST } encoding;

typedef struct product {
  encoding encoding;
  const uint8_t *weights;
  int64_t row_bytes;
  const float *scales;
  int64_t group, scale_step; /* group 0: scales by channel */
  const float *x;
  int64_t rows, depth, channels;
  const float *bias;
  float *out;
} product;

static float scale_of(const product *p, int64_t n, int64_t k) {
  return p->group ? p->scales[k / p->group * p->scale_step + n] : p->scales[n];
}

static void decode(const product *p, int64_t n, int64_t k, int64_t count, float *out) {
  const uint8_t *row = p->weights + n * p->row_bytes;
  for (int64_t i = 0; i < count; i++, k++) {
    const int high = p->encoding == NIBBLES_HIGH_FIRST ? k % 2 == 0 : k % 2 == 1;
    const int q = p->encoding == INT8_ROWS ? (int8_t)row[k]
                                           : (high ? row[k / 2] >> 4 : row[k / 2] & 15) - 8;
    out[i] = (float)q * scale_of(p, n, k);
  }
}

static float dot(const float *a, const float *b, int64_t count) {
  float sums[8] = {0}, total = 0;
  int64_t i = 0;
  for (; i + 8 <= count; i += 8)
    for (int64_t k = 0; k < 8; k++) sums[k] += a[i + k] * b[i + k];
  for (; i < count; i++) total += a[i] * b[i];
  for (int64_t k = 0; k < 8; k++) total += sums[k];
  return total;
}

static void run_channels(void *user, size_t begin, size_t end) {
  const product *p = user;
  float block[BLOCK];
  for (int64_t n = (int64_t)begin; n < (int64_t)end; n++) {
    for (int64_t m = 0; m < p->rows; m++) p->out[m * p->channels + n] = 0;
    for (int64_t k = 0; k < p->depth; k += BLOCK) {
      const int64_t count = p->depth - k < BLOCK ? p->depth - k : BLOCK;
      decode(p, n, k, count, block);
      for (int64_t m = 0; m < p->rows; m++)
        p->out[m * p->channels + n] += dot(p->x + m * p->depth + k, block, count);
    }
    for (int64_t m = 0; p->bias && m < p->rows; m++) p->out[m * p->channels + n] += p->bias[n];
  }
}

static void run_product(const evo_call *c, product *p) {
  const uint64_t work = (uint64_t)p->rows * (uint64_t)p->depth + 1;
  const size_t grain = (size_t)(1 + 65536 / work);
  c->host->parallel_for(c->call, (size_t)p->channels, grain, run_channels, p);
}

/* Reads x [..., K] and a weight [N, bytes of a row]. */
static uint32_t read_matrices(const evo_call *c, size_t x_at, int32_t x_dtype, size_t weight_at,
                              product *p) {
  const ec_backend_tensor *x, *w;
  const bool nibbles = p->encoding != INT8_ROWS;
  EC_BACKEND_TRY(evo_tensor(c, x_at, x_dtype, 1, &x));
  EC_BACKEND_TRY(evo_tensor(c, weight_at, nibbles ? EC_DTYPE_UINT8 : EC_DTYPE_INT8, 2, &w));
  p->x = x->data;
  p->rows = evo_rows(x);
  p->depth = x->sizes[x->rank - 1];
  p->weights = w->data;
  p->channels = w->sizes[0];
  p->row_bytes = ec_arg_count(w) / (p->channels ? p->channels : 1);
  const int64_t room = nibbles ? 2 * p->row_bytes : p->row_bytes;
  if (w->rank == 2 && p->depth <= room) return EC_BACKEND_OK;
  return EC_ARG_FAIL(c, "rows of %lld elements, the weight has rows of %lld", (long long)p->depth,
                     (long long)room);
}

/* Reads scales [N], or [K / group, N]. */
static uint32_t read_scales(const evo_call *c, size_t at, product *p) {
  const ec_backend_tensor *scales;
  EC_BACKEND_TRY(evo_tensor(c, at, EC_DTYPE_FLOAT32, 1, &scales));
  p->scales = scales->data;
  if (!p->group) return evo_check_least(c, scales, p->channels, "weight_scales");
  p->scale_step = scales->rank == 2 ? scales->sizes[1] : 0;
  if (p->group < 0 || p->scale_step < p->channels ||
      (p->depth + p->group - 1) / p->group > scales->sizes[0])
    return EC_ARG_FAIL(c, "scales for groups of %lld do not fit %lld channels of %lld weights",
                       (long long)p->group, (long long)p->channels, (long long)p->depth);
  return EC_BACKEND_OK;
}

static uint32_t read_bias(const evo_call *c, size_t at, product *p) {
  const ec_backend_tensor *bias;
  EC_BACKEND_TRY(evo_optional(c, at, EC_DTYPE_FLOAT32, &bias));
  EC_BACKEND_TRY(evo_check_least(c, bias, p->channels, "bias"));
  p->bias = bias ? bias->data : NULL;
  return EC_BACKEND_OK;
}

/* Sets the shape of the result: x's with N in place of K. */
static uint32_t make_output(const evo_call *c, size_t x_at, size_t at, int32_t dtype,
                            const product *p, void *out) {
  int64_t sizes[16];
  const ec_backend_tensor *x = &c->args[x_at].as.tensor;
  memcpy(sizes, x->sizes, x->rank * sizeof *sizes);
  sizes[x->rank - 1] = p->channels;
  return evo_output(c, at, dtype, x->rank, sizes, out);
}

static uint32_t run_float(const evo_call *c, product *p, size_t scales, size_t bias, size_t out) {
  EC_BACKEND_TRY(read_scales(c, scales, p));
  if (bias) EC_BACKEND_TRY(read_bias(c, bias, p));
  EC_BACKEND_TRY(make_output(c, 0, out, EC_DTYPE_FLOAT32, p, &p->out));
  run_product(c, p);
  return EC_BACKEND_OK;
}

uint32_t evo_linear_int8(const evo_call *c) {
  product p = {.encoding = INT8_ROWS};
  EC_BACKEND_TRY(read_matrices(c, 0, EC_DTYPE_FLOAT32, 1, &p));
  return run_float(c, &p, 2, 0, 3);
}

uint32_t evo_linear_qcs4w(const evo_call *c) {
  product p = {.encoding = NIBBLES_HIGH_FIRST};
  EC_BACKEND_TRY(read_matrices(c, 0, EC_DTYPE_FLOAT32, 1, &p));
  return run_float(c, &p, 2, 0, 3);
}

static uint32_t read_group(const evo_call *c, size_t at, product *p) {
  p->group = c->args[at].as.i;
  return p->group > 0 && p->depth % p->group == 0
             ? EC_BACKEND_OK
             : EC_ARG_FAIL(c, "group_size %lld, expected a divisor of the %lld elements of a row",
                           (long long)p->group, (long long)p->depth);
}

uint32_t evo_linear_q4gsw(const evo_call *c) {
  product p = {.encoding = NIBBLES_LOW_FIRST};
  EC_BACKEND_TRY(read_matrices(c, 0, EC_DTYPE_FLOAT32, 1, &p));
  EC_BACKEND_TRY(read_group(c, 3, &p));
  return run_float(c, &p, 2, 4, 5);
}

/* Quantises x by row, or all of it, and dequantises it into temporary memory. */
static uint32_t round_trip(const evo_call *c, product *p, const evo_affine *by_row, size_t rows) {
  float *out;
  EC_BACKEND_TRY(EC_ARG_SCRATCH(c, (size_t)p->rows * (size_t)p->depth, sizeof *out, &out));
  for (int64_t m = 0; m < p->rows; m++) {
    const evo_affine *a = &by_row[rows == 1 ? 0 : m];
    for (int64_t k = 0; k < p->depth; k++)
      out[m * p->depth + k] = evo_dequantize(evo_quantize(p->x[m * p->depth + k], a), a);
  }
  p->x = out;
  return EC_BACKEND_OK;
}

uint32_t evo_linear_dq8ca_q4gsw(const evo_call *c) {
  const ec_backend_tensor *scales, *zeros;
  evo_affine *rows;
  product p = {.encoding = NIBBLES_LOW_FIRST};
  EC_BACKEND_TRY(read_matrices(c, 0, EC_DTYPE_FLOAT32, 3, &p));
  EC_BACKEND_TRY(evo_tensor(c, 1, EC_DTYPE_FLOAT32, 0, &scales));
  EC_BACKEND_TRY(evo_tensor(c, 2, EC_DTYPE_INT64, 0, &zeros));
  EC_BACKEND_TRY(read_group(c, 6, &p));
  EC_BACKEND_TRY(evo_check_least(c, scales, p.rows, "input_scales"));
  EC_BACKEND_TRY(evo_check_least(c, zeros, p.rows, "input_zp"));
  EC_BACKEND_TRY(EC_ARG_SCRATCH(c, (size_t)p.rows, sizeof *rows, &rows));
  for (int64_t m = 0; m < p.rows; m++)
    rows[m] = evo_affine_of((double)((const float *)scales->data)[m],
                            ((const int64_t *)zeros->data)[m]);
  EC_BACKEND_TRY(round_trip(c, &p, rows, (size_t)p.rows + 1));
  return run_float(c, &p, 5, 7, 8);
}

uint32_t evo_linear_q8ta_q8csw(const evo_call *c) {
  const evo_affine in = evo_affine_of(c->args[1].as.d, c->args[2].as.i);
  product p = {.encoding = INT8_ROWS};
  EC_BACKEND_TRY(read_matrices(c, 0, EC_DTYPE_FLOAT32, 3, &p));
  EC_BACKEND_TRY(round_trip(c, &p, &in, 1));
  return run_float(c, &p, 5, 6, 7);
}

uint32_t evo_q8ta_linear(const evo_call *c) {
  int8_t *to;
  float *x;
  product p = {.encoding = INT8_ROWS};
  const evo_affine in = evo_affine_of(c->args[1].as.d, c->args[2].as.i);
  const evo_affine out = evo_affine_of(c->args[6].as.d, c->args[7].as.i);
  bool relu;
  EC_BACKEND_TRY(read_matrices(c, 0, EC_DTYPE_INT8, 3, &p));
  EC_BACKEND_TRY(read_scales(c, 5, &p));
  EC_BACKEND_TRY(read_bias(c, 8, &p));
  EC_BACKEND_TRY(evo_activation(c, 9, &relu));
  EC_BACKEND_TRY(make_output(c, 0, 10, EC_DTYPE_INT8, &p, &to));
  const int8_t *from = c->args[0].as.tensor.data;
  EC_BACKEND_TRY(EC_ARG_SCRATCH(c, (size_t)p.rows * (size_t)p.depth, sizeof *x, &x));
  for (int64_t i = 0; i < p.rows * p.depth; i++) x[i] = evo_dequantize(from[i], &in);
  p.x = x;
  EC_BACKEND_TRY(EC_ARG_SCRATCH(c, (size_t)p.rows * (size_t)p.channels, sizeof *p.out, &p.out));
  run_product(c, &p);
  for (int64_t i = 0; i < p.rows * p.channels; i++)
    to[i] = evo_quantize(relu ? fmaxf(p.out[i], 0.0f) : p.out[i], &out);
  return EC_BACKEND_OK;
}

/* ---- embedding ------------------------------------------------------------------------------- */

uint32_t evo_embedding_q4gsw(const evo_call *c) {
  const ec_backend_tensor *w, *scales, *indices;
  int64_t sizes[16];
  float *to;
  EC_BACKEND_TRY(evo_tensor(c, 0, EC_DTYPE_UINT8, 2, &w));
  EC_BACKEND_TRY(evo_tensor(c, 1, EC_DTYPE_FLOAT32, 0, &scales));
  EC_BACKEND_TRY(evo_tensor(c, 3, EC_DTYPE_INT64, 0, &indices));
  const bool by_row = scales->rank > 1;
  product p = {.encoding = c->args[4].as.b ? NIBBLES_LOW_FIRST : NIBBLES_HIGH_FIRST,
               .row_bytes = w->sizes[1], .scale_step = 1, .group = c->args[2].as.i,
               .depth = 2 * w->sizes[1], .channels = w->sizes[0]};
  const int64_t groups = by_row ? scales->sizes[1] : 1;
  if (w->rank != 2 || indices->rank > 15 || p.group < 1 ||
      groups < (p.depth + p.group - 1) / p.group ||
      (by_row && scales->sizes[0] < p.channels) || ec_arg_count(scales) < 1)
    return EC_ARG_FAIL(c, "%lld scales for groups of %lld do not fit rows of %lld weights",
                       (long long)groups, (long long)p.group, (long long)p.depth);
  memcpy(sizes, indices->sizes, indices->rank * sizeof *sizes);
  sizes[indices->rank] = p.depth;
  EC_BACKEND_TRY(evo_output(c, 5, EC_DTYPE_FLOAT32, indices->rank + 1u, sizes, &to));
  for (int64_t i = 0; i < ec_arg_count(indices); i++) {
    const int64_t row = ((const int64_t *)indices->data)[i];
    if (row < 0 || row >= p.channels)
      return EC_ARG_FAIL(c, "index %lld of %lld rows", (long long)row, (long long)p.channels);
    p.weights = (const uint8_t *)w->data + row * p.row_bytes;
    p.scales = (const float *)scales->data + (by_row ? row * groups : 0);
    decode(&p, 0, 0, p.depth, to + i * p.depth);
  }
  return EC_BACKEND_OK;
}
