/* torchao's affine quantisation: a scale and a zero point for each block of a tensor. */
#include <float.h>
#include <string.h>

#include "operators.h"
#include "quantize.h"

enum { MAX_RANK = 16 };

/* A tensor divided into blocks; blocks are numbered in row-major order. */
typedef struct blocks {
  const ec_backend_tensor *x;
  int64_t size[MAX_RANK], counts[MAX_RANK], total;
} blocks;

static uint32_t divide(const evo_call *c, const ec_backend_tensor *x, size_t at, blocks *b) {
  *b = (blocks){.x = x, .total = 1};
  if (c->args[at].as.list.count != x->rank || x->rank > MAX_RANK)
    return EC_ARG_FAIL(c, "block_size has %zu numbers, expected %u", c->args[at].as.list.count,
                       (unsigned)x->rank);
  for (size_t d = 0; d < x->rank; d++) {
    b->size[d] = c->args[at].as.list.items[d].as.i;
    if (b->size[d] < 1 || x->sizes[d] % b->size[d])
      return EC_ARG_FAIL(c, "a size of %lld does not divide into blocks of %lld",
                         (long long)x->sizes[d], (long long)b->size[d]);
    b->counts[d] = x->sizes[d] / b->size[d];
    b->total *= b->counts[d];
  }
  return EC_BACKEND_OK;
}

/* The block of element `i`. */
static int64_t block_of(const blocks *b, int64_t i) {
  int64_t block = 0, step = 1;
  for (size_t d = b->x->rank; d-- > 0;) {
    block += i % b->x->sizes[d] / b->size[d] * step;
    i /= b->x->sizes[d];
    step *= b->counts[d];
  }
  return block;
}

static double number_or(const ec_backend_arg *arg, double otherwise) {
  if (arg->kind == EC_BACKEND_INT) return (double)arg->as.i;
  return arg->kind == EC_BACKEND_DOUBLE ? arg->as.d : otherwise;
}

/* ---- choice of parameters -------------------------------------------------------------------- */

typedef struct range {
  float low, high;
} range;

static uint32_t find_ranges(const evo_call *c, const blocks *b, range **out) {
  const float *x = b->x->data;
  EC_BACKEND_TRY(EC_ARG_SCRATCH(c, (size_t)b->total, sizeof **out, out));
  memset(*out, 0, (size_t)b->total * sizeof **out); /* the range contains 0 */
  for (int64_t i = 0; i < ec_arg_count(b->x); i++) {
    range *r = &(*out)[block_of(b, i)];
    if (!(x[i] >= r->low)) r->low = x[i];
    if (!(x[i] <= r->high)) r->high = x[i];
  }
  return EC_BACKEND_OK;
}

/* Sets the shape of a result: one element for each block, with all dimensions if the program keeps
 * them, else without those of a single block of more than one element. */
static uint32_t make_result(const evo_call *c, size_t at, const blocks *b) {
  int64_t sizes[MAX_RANK];
  size_t rank = 0;
  const bool keeps = c->args[at].as.tensor.rank == b->x->rank;
  for (size_t d = 0; d < b->x->rank; d++)
    if (keeps || b->size[d] == 1 || b->size[d] != b->x->sizes[d]) sizes[rank++] = b->counts[d];
  return c->host->resize(c->call, &c->args[at], rank, sizes);
}

static uint32_t store_zero(const evo_call *c, const ec_backend_tensor *t, int64_t i, float zero) {
  switch (t->dtype) {
  case EC_DTYPE_INT8: ((int8_t *)t->data)[i] = (int8_t)fmaxf(fminf(zero, 127), -128); break;
  case EC_DTYPE_INT32: ((int32_t *)t->data)[i] = (int32_t)fmaxf(fminf(zero, 65535), -65536); break;
  case EC_DTYPE_INT64: ((int64_t *)t->data)[i] = (int64_t)fmaxf(fminf(zero, 65535), -65536); break;
  case EC_DTYPE_FLOAT32: ((float *)t->data)[i] = zero; break;
  default: return EC_ARG_FAIL(c, "'zero_point' has dtype %d", t->dtype);
  }
  return EC_BACKEND_OK;
}

uint32_t evo_choose_qparams_affine(const evo_call *c) {
  const ec_backend_tensor *x, *scales = &c->args[6].as.tensor, *zeros = &c->args[7].as.tensor;
  const char *mapping = c->args[1].as.string.data;
  const float low = (float)number_or(&c->args[3], -128), high = (float)number_or(&c->args[4], 127);
  const float least = (float)number_or(&c->args[5], (double)FLT_MIN);
  blocks b;
  range *ranges;
  EC_BACKEND_TRY(evo_tensor(c, 0, EC_DTYPE_FLOAT32, 0, &x));
  EC_BACKEND_TRY(divide(c, x, 2, &b));
  if (strcmp(mapping, "ASYMMETRIC") != 0 && strcmp(mapping, "SYMMETRIC") != 0)
    return EC_ARG_FAIL(c, "mapping_type '%.40s', expected ASYMMETRIC or SYMMETRIC", mapping);
  EC_BACKEND_TRY(find_ranges(c, &b, &ranges));
  EC_BACKEND_TRY(make_result(c, 6, &b));
  EC_BACKEND_TRY(make_result(c, 7, &b));
  if (scales->dtype != EC_DTYPE_FLOAT32)
    return EC_ARG_FAIL(c, "'scale' has dtype %d, expected float32", scales->dtype);
  const bool symmetric = *mapping == 'S';
  for (int64_t i = 0; i < b.total; i++) {
    const float span = symmetric ? 2 * fmaxf(-ranges[i].low, ranges[i].high)
                                 : ranges[i].high - ranges[i].low;
    const float scale = fmaxf(span / (high - low), least);
    const float zero = symmetric ? truncf((high + low + 1) / 2)
                                 : fmaxf(fminf(low - nearbyintf(ranges[i].low / scale), high), low);
    ((float *)scales->data)[i] = scale;
    EC_BACKEND_TRY(store_zero(c, zeros, i, zero));
  }
  return EC_BACKEND_OK;
}

/* ---- conversion ------------------------------------------------------------------------------ */

static uint32_t read_parameters(const evo_call *c, const blocks *b, const float **scales,
                                const int64_t **zeros) {
  const ec_backend_tensor *s, *z;
  EC_BACKEND_TRY(evo_tensor(c, 2, EC_DTYPE_FLOAT32, 0, &s));
  EC_BACKEND_TRY(evo_optional(c, 3, EC_DTYPE_INT64, &z));
  EC_BACKEND_TRY(evo_check_least(c, s, b->total, "scale"));
  if (z && ec_arg_count(z) == 0) z = NULL;
  EC_BACKEND_TRY(evo_check_least(c, z, b->total, "zero_point"));
  *scales = s->data;
  *zeros = z ? z->data : NULL;
  return EC_BACKEND_OK;
}

uint32_t evo_quantize_affine(const evo_call *c) {
  const ec_backend_tensor *x, *out = &c->args[6].as.tensor;
  const float *scales;
  const int64_t *zeros;
  blocks b;
  EC_BACKEND_TRY(evo_tensor(c, 0, EC_DTYPE_FLOAT32, 0, &x));
  EC_BACKEND_TRY(divide(c, x, 1, &b));
  EC_BACKEND_TRY(read_parameters(c, &b, &scales, &zeros));
  EC_BACKEND_TRY(c->host->resize(c->call, &c->args[6], x->rank, x->sizes));
  const bool is_signed = out->dtype == EC_DTYPE_INT8;
  if (!is_signed && out->dtype != EC_DTYPE_UINT8)
    return EC_ARG_FAIL(c, "'out' has dtype %d, expected int8 or uint8", out->dtype);
  const float low = fmaxf((float)number_or(&c->args[4], -128), is_signed ? -128 : 0);
  const float high = fminf((float)number_or(&c->args[5], 127), is_signed ? 127 : 255);
  for (int64_t i = 0; i < ec_arg_count(x); i++) {
    const int64_t k = block_of(&b, i);
    const float zero = zeros ? (float)zeros[k] : 0.0f;
    const float q = nearbyintf(((const float *)x->data)[i] * (1.0f / scales[k])) + zero;
    const float cut = fminf(fmaxf(q, low), high);
    if (is_signed) ((int8_t *)out->data)[i] = (int8_t)cut;
    else ((uint8_t *)out->data)[i] = (uint8_t)cut;
  }
  return EC_BACKEND_OK;
}

static float load_integer(const ec_backend_tensor *t, int64_t i) {
  switch (t->dtype) {
  case EC_DTYPE_INT8: return ((const int8_t *)t->data)[i];
  case EC_DTYPE_UINT8: return ((const uint8_t *)t->data)[i];
  default: return (float)((const int32_t *)t->data)[i];
  }
}

uint32_t evo_dequantize_affine(const evo_call *c) {
  const ec_backend_tensor *x = &c->args[0].as.tensor;
  const int32_t dtype =
      x->dtype == EC_DTYPE_INT8 || x->dtype == EC_DTYPE_UINT8 ? x->dtype : EC_DTYPE_INT32;
  const float *scales;
  const int64_t *zeros;
  float *out;
  blocks b;
  EC_BACKEND_TRY(evo_tensor(c, 0, dtype, 0, &x));
  EC_BACKEND_TRY(divide(c, x, 1, &b));
  EC_BACKEND_TRY(read_parameters(c, &b, &scales, &zeros));
  EC_BACKEND_TRY(evo_output(c, 4, EC_DTYPE_FLOAT32, x->rank, x->sizes, &out));
  for (int64_t i = 0; i < ec_arg_count(x); i++) {
    const int64_t k = block_of(&b, i);
    out[i] = (load_integer(x, i) - (zeros ? (float)zeros[k] : 0.0f)) * scales[k];
  }
  return EC_BACKEND_OK;
}
