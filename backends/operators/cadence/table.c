/* Rows of a quantised table, and masks as bits. */
#include "table.h"

typedef struct embedding {
  const cad_tensor *weight, *zeros, *indices, *out; /* zeros NULL: none */
  const float *scales;
  int64_t columns, groups; /* of a row, which has a scale for each group */
} embedding;

static int64_t embedding_row(const embedding *p, int64_t i) {
  const int64_t row = p->indices->dtype == EC_DTYPE_INT32 ? ((const int32_t *)p->indices->data)[i]
                                                          : ((const int64_t *)p->indices->data)[i];
  return row < 0 ? row + p->weight->sizes[0] : row;
}

static void embedding_rows(void *user, size_t begin, size_t end) {
  const embedding *p = user;
  const int64_t size = p->columns / p->groups;
  for (int64_t i = (int64_t)begin; i < (int64_t)end; i++)
    for (int64_t g = 0; g < p->groups; g++) {
      const int64_t row = embedding_row(p, i), at = row * p->groups + g;
      float *out = (float *)p->out->data + i * p->columns + g * size;
      float zero = 0;
      if (p->zeros) cad_load(p->zeros, at, 1, 1, 0, &zero);
      cad_load(p->weight, row * p->columns + g * size, 1, size, zero, out);
      for (int64_t k = 0; k < size; k++) out[k] *= p->scales[at];
    }
}

/* Reads scales and zero points, [rows] or [rows, groups]. */
static uint32_t embedding_scales(const cad_call *c, embedding *p) {
  const cad_tensor *scales;
  EC_BACKEND_TRY(EC_ARG_TENSOR(c, 1, "weight_scales", CAD_FLOAT, -1, &scales));
  p->groups = scales->rank == 2 ? scales->sizes[1] : 1;
  p->scales = scales->data;
  if (scales->rank < 1 || scales->rank > 2 || scales->sizes[0] != p->weight->sizes[0] ||
      p->groups < 1 || p->columns % p->groups)
    return EC_ARG_FAIL(c, "'weight_scales' has %lld scales for a table of %lld x %lld",
                       (long long)ec_arg_count(scales), (long long)p->weight->sizes[0],
                       (long long)p->columns);
  if (!cad_is_tensor(c, 2)) return EC_BACKEND_OK;
  return cad_vector(c, 2, "weight_zero_points", CAD_QUANTIZED | CAD_FLOAT, ec_arg_count(scales),
                    &p->zeros);
}

uint32_t cad_quantized_embedding_byte(const cad_call *c) {
  embedding p = {0};
  int64_t sizes[CAD_RANK + 1];
  EC_BACKEND_TRY(EC_ARG_TENSOR(c, 0, "weight", c->dtypes, 2, &p.weight));
  EC_BACKEND_TRY(EC_ARG_TENSOR(
      c, 3, "indices", EC_ARG_SET(EC_DTYPE_INT32) | EC_ARG_SET(EC_DTYPE_INT64), -1, &p.indices));
  p.columns = p.weight->sizes[1];
  EC_BACKEND_TRY(embedding_scales(c, &p));
  if (c->args[4].as.b) return EC_ARG_FAIL(c, "'pruned_weights' is true, expected false");
  const int64_t count = ec_arg_count(p.indices);
  for (int64_t i = 0; i < count; i++)
    if (embedding_row(&p, i) < 0 || embedding_row(&p, i) >= p.weight->sizes[0])
      return EC_ARG_FAIL(c, "'indices' has row %lld at %lld, beyond %lld rows",
                         (long long)embedding_row(&p, i), (long long)i,
                         (long long)p.weight->sizes[0]);
  for (size_t d = 0; d < p.indices->rank; d++) sizes[d] = p.indices->sizes[d];
  sizes[p.indices->rank] = p.columns;
  EC_BACKEND_TRY(EC_ARG_OUTPUT(c, 5, CAD_FLOAT, p.indices->rank + 1u, sizes, &p.out));
  EC_ARG_PARALLEL(c, count, (double)p.columns, embedding_rows, &p);
  return EC_BACKEND_OK;
}

enum { BITS = 8 };

/* Bit k of a byte says that element k is masked: false, or below the threshold. */
uint32_t cad_bitwise_mask(const cad_call *c) {
  const cad_tensor *in, *out;
  int64_t sizes[CAD_RANK];
  const float threshold = (float)c->args[1].as.d;
  EC_BACKEND_TRY(EC_ARG_TENSOR(c, 0, "mask", c->dtypes, -1, &in));
  if (in->rank < 1 || in->sizes[in->rank - 1] % BITS)
    return EC_ARG_FAIL(c,
                       "'mask' has %lld elements in its last dimension, expected a multiple of 8",
                       in->rank ? (long long)in->sizes[in->rank - 1] : 0);
  for (size_t d = 0; d < in->rank; d++) sizes[d] = in->sizes[d];
  sizes[in->rank - 1] /= BITS;
  EC_BACKEND_TRY(EC_ARG_OUTPUT(c, 2, EC_ARG_SET(EC_DTYPE_UINT8), in->rank, sizes, &out));
  for (int64_t i = 0; i < ec_arg_count(out); i++) {
    float values[BITS];
    unsigned byte = 0;
    cad_load(in, i * BITS, 1, BITS, 0, values);
    for (unsigned k = 0; k < BITS; k++)
      byte |= (in->dtype == EC_DTYPE_BOOL ? values[k] == 0 : values[k] < threshold) ? 1u << k : 0;
    ((uint8_t *)out->data)[i] = (uint8_t)byte;
  }
  return EC_BACKEND_OK;
}
