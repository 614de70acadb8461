/* Arguments and elements. */
#include "call.h"

#include "core/half.h"

#define FLOATS                                                                                     \
  (EC_ARG_SET(EC_DTYPE_FLOAT32) | EC_ARG_SET(EC_DTYPE_FLOAT16) | EC_ARG_SET(EC_DTYPE_BFLOAT16))

bool emo_is_float(int32_t dtype) { return (FLOATS & EC_ARG_SET(dtype)) != 0; }

/* ---- arguments ------------------------------------------------------------------------------- */

uint32_t emo_floats(const emo_call *c, size_t i, const char *name, const ec_backend_tensor **out) {
  return EC_ARG_TENSOR(c, i, name, FLOATS, -1, out);
}

uint32_t emo_tensor(const emo_call *c, size_t i, const char *name, const ec_backend_tensor **out) {
  return EC_ARG_TENSOR(c, i, name, UINT32_MAX, -1, out);
}

uint32_t emo_optional(const emo_call *c, size_t i, const char *name,
                      const ec_backend_tensor **out) {
  *out = NULL;
  return c->args[i].kind == EC_BACKEND_NONE ? EC_BACKEND_OK : emo_tensor(c, i, name, out);
}

uint32_t emo_output(const emo_call *c, size_t i, size_t rank, const int64_t *sizes,
                    const ec_backend_tensor *like, const ec_backend_tensor **out) {
  return EC_ARG_OUTPUT(c, i, like ? EC_ARG_SET(like->dtype) : UINT32_MAX, rank, sizes, out);
}

uint32_t emo_axis(const emo_call *c, int64_t number, size_t rank, size_t *out) {
  const int64_t count = (int64_t)rank;
  if (number < -count || number >= count)
    return EC_ARG_FAIL(c, "axis %lld, expected %lld to %lld", (long long)number, (long long)-count,
                       (long long)count - 1);
  *out = (size_t)(number < 0 ? number + count : number);
  return EC_BACKEND_OK;
}

/* ---- shapes ---------------------------------------------------------------------------------- */

uint32_t emo_broadcast(const emo_call *c, const int64_t *a, size_t a_rank, const int64_t *b,
                       size_t b_rank, int64_t *out, size_t *rank) {
  *rank = a_rank > b_rank ? a_rank : b_rank;
  if (*rank > EMO_MAX_RANK) return EC_ARG_FAIL(c, "more than %d dimensions", EMO_MAX_RANK);
  for (size_t d = 0; d < *rank; d++) {
    const int64_t x = d + a_rank < *rank ? 1 : a[d + a_rank - *rank];
    const int64_t y = d + b_rank < *rank ? 1 : b[d + b_rank - *rank];
    if (x != y && x != 1 && y != 1)
      return EC_ARG_FAIL(c, "sizes %lld and %lld do not broadcast", (long long)x, (long long)y);
    out[d] = x == 1 ? y : x;
  }
  return EC_BACKEND_OK;
}

int64_t emo_place(const int64_t *sizes, size_t rank, const int64_t *all, size_t all_rank,
                  int64_t at) {
  int64_t place = 0, step = 1;
  for (size_t d = all_rank; d-- > 0; at /= all[d]) {
    if (d + rank < all_rank) break;
    const int64_t size = sizes[d + rank - all_rank];
    if (size != 1) place += at % all[d] * step;
    step *= size;
  }
  return place;
}

int64_t emo_product(const int64_t *sizes, size_t first, size_t end) {
  int64_t product = 1;
  for (size_t d = first; d < end; d++) product *= sizes[d];
  return product;
}

/* ---- elements -------------------------------------------------------------------------------- */

static uint64_t load_bits(const ec_backend_tensor *t, int64_t at, size_t width) {
  uint64_t bits = 0;
  memcpy(&bits, (const uint8_t *)t->data + (size_t)at * width, width);
  return bits;
}

int64_t emo_load_int(const ec_backend_tensor *t, int64_t at) {
  const size_t width = ec_backend_dtype_size(t->dtype);
  if (emo_is_float(t->dtype)) return (int64_t)emo_load(t, at);
  const uint64_t bits = load_bits(t, at, width);
  switch (t->dtype) {
  case EC_DTYPE_INT8: return (int8_t)bits;
  case EC_DTYPE_INT16: return (int16_t)bits;
  case EC_DTYPE_INT32: return (int32_t)bits;
  default: return (int64_t)bits;
  }
}

double emo_load(const ec_backend_tensor *t, int64_t at) {
  const size_t width = ec_backend_dtype_size(t->dtype);
  if (t->dtype == EC_DTYPE_UINT64) return (double)(uint64_t)emo_load_int(t, at);
  if (!emo_is_float(t->dtype)) return (double)emo_load_int(t, at);
  const uint64_t bits = load_bits(t, at, width);
  if (t->dtype == EC_DTYPE_FLOAT32) return (double)ec_bits_float((uint32_t)bits);
  if (t->dtype == EC_DTYPE_FLOAT16) return (double)ec_f16_to_f32((uint16_t)bits);
  return (double)ec_bf16_to_f32((uint16_t)bits);
}

void emo_store_int(const ec_backend_tensor *t, int64_t at, int64_t value) {
  const size_t width = ec_backend_dtype_size(t->dtype);
  if (emo_is_float(t->dtype)) emo_store_at(t, at, (double)value);
  else if (t->dtype == EC_DTYPE_BOOL) ((bool *)t->data)[at] = value != 0;
  else memcpy((uint8_t *)t->data + (size_t)at * width, &value, width);
}

void emo_store_at(const ec_backend_tensor *t, int64_t at, double value) {
  if (!emo_is_float(t->dtype)) emo_store_int(t, at, (int64_t)value);
  else if (t->dtype == EC_DTYPE_FLOAT32) ((float *)t->data)[at] = (float)value;
  else if (t->dtype == EC_DTYPE_FLOAT16) ((uint16_t *)t->data)[at] = ec_f32_to_f16((float)value);
  else ((uint16_t *)t->data)[at] = ec_f32_to_bf16((float)value);
}

uint32_t emo_index(const emo_call *c, const ec_backend_tensor *indices, int64_t at, int64_t limit,
                   int64_t *out) {
  const int64_t index = emo_load_int(indices, at);
  if (index < -limit || index >= limit)
    return EC_ARG_FAIL(c, "index %lld, expected %lld to %lld", (long long)index, (long long)-limit,
                       (long long)limit - 1);
  *out = index < 0 ? index + limit : index;
  return EC_BACKEND_OK;
}
