/* Checks of arguments, and elements of any integer dtype. */
#include "call.h"

#include <string.h>

static bool is_of_kind(int32_t dtype, eto_kind kind) {
  const bool integer =
      (dtype >= EC_DTYPE_UINT8 && dtype <= EC_DTYPE_INT64) || dtype == EC_DTYPE_BOOL;
  if (kind == ETO_ANY) return ec_backend_dtype_size(dtype) != 0;
  return integer || (kind == ETO_NUMBERS && dtype == EC_DTYPE_FLOAT32);
}

static uint32_t check_tensor(const eto_call *c, const eto_tensor *t, const char *name,
                             eto_kind kind) {
  if (!is_of_kind(t->dtype, kind))
    return EC_ARG_FAIL(c, "'%s' has dtype %d, expected %s", name, t->dtype,
                       kind == ETO_INTEGERS ? "integers" : "integers or float32");
  for (uint16_t d = 0; d < t->rank; d++)
    if (t->dim_order[d] != d) return EC_ARG_FAIL(c, "'%s' is not contiguous", name);
  return EC_BACKEND_OK;
}

uint32_t eto_input(const eto_call *c, size_t i, const char *name, eto_kind kind, int rank,
                   const eto_tensor **out) {
  *out = &c->args[i].as.tensor;
  EC_BACKEND_TRY(check_tensor(c, *out, name, kind));
  if (rank >= 0 && (*out)->rank != rank)
    return EC_ARG_FAIL(c, "'%s' has %u dimensions, expected %d", name, (unsigned)(*out)->rank,
                       rank);
  return EC_BACKEND_OK;
}

uint32_t eto_output(const eto_call *c, size_t i, eto_kind kind, size_t rank, const int64_t *sizes,
                    const eto_tensor **out) {
  EC_BACKEND_TRY(c->host->resize(c->call, &c->args[i], rank, sizes));
  return eto_input(c, i, "out", kind, (int)rank, out);
}

uint32_t eto_first(const eto_call *c, size_t i, const char *name, int64_t *out) {
  const eto_tensor *t;
  EC_BACKEND_TRY(eto_input(c, i, name, ETO_ANY, -1, &t));
  *out = 0;
  if (ec_arg_count(t) != 1)
    return EC_ARG_FAIL(c, "'%s' has %lld elements, expected 1", name, (long long)ec_arg_count(t));
  if (is_of_kind(t->dtype, ETO_INTEGERS)) eto_load(t, 0, 1, false, out);
  return EC_BACKEND_OK;
}

uint32_t eto_ints(const eto_call *c, size_t i, const char *name, int64_t least, size_t count,
                  int64_t *out) {
  return EC_ARG_INTS(c, i, out, name, count, least, ETO_MOST, false);
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
