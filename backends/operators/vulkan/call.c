/* Checks of arguments. */
#include "call.h"

#include <string.h>

static uint32_t check_layout(const evo_call *c, size_t i, int32_t dtype) {
  const ec_backend_tensor *t = &c->args[i].as.tensor;
  if (t->dtype != dtype)
    return EC_ARG_FAIL(c, "argument %zu has dtype %d, expected %d", i, t->dtype, dtype);
  for (uint16_t d = 0; d < t->rank; d++)
    if (t->dim_order[d] != d) return EC_ARG_FAIL(c, "argument %zu is not contiguous", i);
  return EC_BACKEND_OK;
}

uint32_t evo_tensor(const evo_call *c, size_t i, int32_t dtype, size_t rank,
                    const ec_backend_tensor **out) {
  *out = &c->args[i].as.tensor;
  EC_BACKEND_TRY(check_layout(c, i, dtype));
  if ((*out)->rank < rank)
    return EC_ARG_FAIL(c, "argument %zu has %u dimensions, expected at least %zu", i,
                       (unsigned)(*out)->rank, rank);
  return EC_BACKEND_OK;
}

uint32_t evo_optional(const evo_call *c, size_t i, int32_t dtype, const ec_backend_tensor **out) {
  *out = NULL;
  return c->args[i].kind == EC_BACKEND_NONE ? EC_BACKEND_OK : evo_tensor(c, i, dtype, 0, out);
}

uint32_t evo_output(const evo_call *c, size_t i, int32_t dtype, size_t rank, const int64_t *sizes,
                    void *out) {
  EC_BACKEND_TRY(c->host->resize(c->call, &c->args[i], rank, sizes));
  EC_BACKEND_TRY(check_layout(c, i, dtype));
  void *data = c->args[i].as.tensor.data;
  memcpy(out, &data, sizeof data);
  return EC_BACKEND_OK;
}

uint32_t evo_check_least(const evo_call *c, const ec_backend_tensor *t, int64_t count,
                         const char *name) {
  if (!t || ec_arg_count(t) >= count) return EC_BACKEND_OK;
  return EC_ARG_FAIL(c, "'%s' has %lld elements, expected at least %lld", name,
                     (long long)ec_arg_count(t), (long long)count);
}

uint32_t evo_activation(const evo_call *c, size_t i, bool *relu) {
  const char *name = c->args[i].as.string.data;
  *relu = strcmp(name, "relu") == 0;
  return *relu || strcmp(name, "none") == 0
             ? EC_BACKEND_OK
             : EC_ARG_FAIL(c, "activation '%.40s', expected 'none' or 'relu'", name);
}

int64_t evo_rows(const ec_backend_tensor *t) {
  int64_t count = 1;
  for (uint16_t d = 0; d + 1 < t->rank; d++) count *= t->sizes[d];
  return count;
}
