/* Checks of arguments, and elements of any dtype as floats. */
#include "call.h"

#include <math.h>
#include <string.h>

bool cad_is_tensor(const cad_call *c, size_t i) { return c->args[i].kind == EC_BACKEND_TENSOR; }

uint32_t cad_vector(const cad_call *c, size_t i, const char *name, uint32_t dtypes, int64_t count,
                    const cad_tensor **out) {
  EC_BACKEND_TRY(EC_ARG_TENSOR(c, i, name, dtypes, -1, out));
  return EC_ARG_COUNT(c, *out, name, count);
}

static int64_t integer_of(const cad_tensor *t) {
  switch (t->dtype) {
  case EC_DTYPE_UINT8: return *(const uint8_t *)t->data;
  case EC_DTYPE_INT8: return *(const int8_t *)t->data;
  case EC_DTYPE_INT16: return *(const int16_t *)t->data;
  case EC_DTYPE_INT32: return *(const int32_t *)t->data;
  default: return *(const int64_t *)t->data;
  }
}

uint32_t cad_int(const cad_call *c, size_t i, const char *name, int32_t *out) {
  int64_t value = c->args[i].as.i;
  if (cad_is_tensor(c, i)) {
    const cad_tensor *t;
    EC_BACKEND_TRY(cad_vector(c, i, name,
                              CAD_BYTES | EC_ARG_SET(EC_DTYPE_INT16) | EC_ARG_SET(EC_DTYPE_INT32) |
                                  EC_ARG_SET(EC_DTYPE_INT64),
                              1, &t));
    value = integer_of(t);
  }
  if (value < INT32_MIN || value > INT32_MAX)
    return EC_ARG_FAIL(c, "'%s' is %lld, expected an int32", name, (long long)value);
  *out = (int32_t)value;
  return EC_BACKEND_OK;
}

uint32_t cad_scale(const cad_call *c, size_t i, const char *name, double *out) {
  *out = c->args[i].as.d;
  if (cad_is_tensor(c, i)) {
    const cad_tensor *t;
    EC_BACKEND_TRY(cad_vector(c, i, name, CAD_FLOAT, 1, &t));
    *out = *(const float *)t->data;
  }
  if (!isfinite(*out) || !(*out > 0))
    return EC_ARG_FAIL(c, "'%s' is %g, expected a finite number above 0", name, *out);
  return EC_BACKEND_OK;
}

uint32_t cad_ints(const cad_call *c, size_t i, const char *name, int64_t least, size_t count,
                  int64_t *out) {
  return EC_ARG_INTS(c, i, out, name, count, least, CAD_MAX_EXTENT, true);
}

uint32_t cad_dim(const cad_call *c, size_t i, size_t rank, size_t *out) {
  const int64_t dim = c->args[i].as.i;
  if (dim < -(int64_t)rank || dim >= (int64_t)rank)
    return EC_ARG_FAIL(c, "'dim' is %lld for %zu dimensions", (long long)dim, rank);
  *out = (size_t)(dim < 0 ? dim + (int64_t)rank : dim);
  return EC_BACKEND_OK;
}

/* ---- elements ---------------------------------------------------------------------------- */

/* Each for a step of 1, which the compiler vectorises, and for others. */
#define LOAD(type)                                                                                 \
  do {                                                                                             \
    const type *from = (const type *)t->data + at;                                                 \
    if (step == 1)                                                                                 \
      for (int64_t i = 0; i < n; i++) out[i] = (float)from[i] - zero;                              \
    else                                                                                           \
      for (int64_t i = 0; i < n; i++) out[i] = (float)from[i * step] - zero;                       \
  } while (0)
#define STORE(type)                                                                                \
  do {                                                                                             \
    type *to = (type *)t->data + at;                                                               \
    for (int64_t i = 0; i < n; i++) to[i * step] = (type)values[i];                                \
  } while (0)

void cad_load(const cad_tensor *t, int64_t at, int64_t step, int64_t n, float zero, float *out) {
  switch (t->dtype) {
  case EC_DTYPE_BOOL:
  case EC_DTYPE_UINT8: LOAD(uint8_t); break;
  case EC_DTYPE_INT8: LOAD(int8_t); break;
  case EC_DTYPE_INT16: LOAD(int16_t); break;
  case EC_DTYPE_INT32: LOAD(int32_t); break;
  case EC_DTYPE_UINT16: LOAD(uint16_t); break;
  default: LOAD(float);
  }
}

void cad_store(const cad_tensor *t, int64_t at, int64_t step, int64_t n, const float *values) {
  switch (t->dtype) {
  case EC_DTYPE_UINT8: STORE(uint8_t); break;
  case EC_DTYPE_INT8: STORE(int8_t); break;
  case EC_DTYPE_INT16: STORE(int16_t); break;
  case EC_DTYPE_INT32: STORE(int32_t); break;
  case EC_DTYPE_UINT16: STORE(uint16_t); break;
  default: STORE(float);
  }
}

typedef struct floats_task {
  const cad_tensor *t;
  float zero, *out;
} floats_task;

static void floats_range(void *user, size_t begin, size_t end) {
  const floats_task *p = user;
  cad_load(p->t, (int64_t)begin, 1, (int64_t)(end - begin), p->zero, p->out + begin);
}

uint32_t cad_floats(const cad_call *c, const cad_tensor *t, float zero, float **out) {
  EC_BACKEND_TRY(EC_ARG_SCRATCH(c, ec_arg_count(t), sizeof **out, out));
  floats_task task = {t, zero, *out};
  EC_ARG_PARALLEL(c, ec_arg_count(t), 1, floats_range, &task);
  return EC_BACKEND_OK;
}
