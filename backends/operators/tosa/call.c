/* Checks of arguments, and elements of any integer dtype. */
#include "call.h"

#include <string.h>

uint32_t eto_first(const eto_call *c, size_t i, const char *name, int64_t *out) {
  const eto_tensor *t;
  EC_BACKEND_TRY(EC_ARG_TENSOR(c, i, name, ETO_ANY, -1, &t));
  *out = 0;
  EC_BACKEND_TRY(EC_ARG_COUNT(c, t, name, 1));
  if (ETO_INTEGERS & EC_ARG_SET(t->dtype)) eto_load(t, 0, 1, false, out);
  return EC_BACKEND_OK;
}

uint32_t eto_ints(const eto_call *c, size_t i, const char *name, int64_t least, size_t count,
                  int64_t *out) {
  return EC_ARG_INTS(c, i, out, name, count, least, ETO_MAX_EXTENT, false);
}

/* ---- elements -------------------------------------------------------------------------------- */

#define LOAD(type)                                                                                 \
  for (int64_t i = 0; i < n; i++) out[i] = (int64_t)((const type *)t->data)[at + i]
#define STORE(type)                                                                                \
  for (int64_t i = 0; i < n; i++) ((type *)t->data)[at + i] = (type)numbers[i]

void eto_load(const eto_tensor *t, int64_t at, int64_t n, bool is_unsigned, int64_t *out) {
  switch (t->dtype) {
  case EC_DTYPE_BOOL:
  case EC_DTYPE_UINT8: LOAD(uint8_t); break;
  case EC_DTYPE_INT8:
    if (is_unsigned) LOAD(uint8_t);
    else LOAD(int8_t);
    break;
  case EC_DTYPE_INT16:
    if (is_unsigned) LOAD(uint16_t);
    else LOAD(int16_t);
    break;
  case EC_DTYPE_INT32:
    if (is_unsigned) LOAD(uint32_t);
    else LOAD(int32_t);
    break;
  default: LOAD(int64_t);
  }
}

void eto_store(const eto_tensor *t, int64_t at, int64_t n, const int64_t *numbers) {
  switch (t->dtype) {
  case EC_DTYPE_BOOL:
    for (int64_t i = 0; i < n; i++) ((uint8_t *)t->data)[at + i] = numbers[i] != 0;
    break;
  case EC_DTYPE_UINT8: STORE(uint8_t); break;
  case EC_DTYPE_INT8: STORE(int8_t); break;
  case EC_DTYPE_INT16: STORE(int16_t); break;
  case EC_DTYPE_INT32: STORE(int32_t); break;
  default: STORE(int64_t);
  }
}

int64_t eto_most(int32_t dtype) {
  if (dtype == EC_DTYPE_BOOL) return 1;
  if (dtype == EC_DTYPE_UINT8) return UINT8_MAX;
  return dtype == EC_DTYPE_INT64 ? INT64_MAX
                                 : (INT64_C(1) << (8 * ec_backend_dtype_size(dtype) - 1)) - 1;
}

int64_t eto_least(int32_t dtype) {
  return dtype == EC_DTYPE_BOOL || dtype == EC_DTYPE_UINT8 ? 0 : -eto_most(dtype) - 1;
}
