/* Elements less their zero point. */
#include "dot.h"

typedef struct centring {
  const eto_tensor *t;
  int64_t zero;
  int16_t *to;
} centring;

static void run_centring(void *user, size_t begin, size_t end) {
  const centring *k = user;
  int64_t block[ETO_BLOCK];
  for (int64_t at = (int64_t)begin; at < (int64_t)end; at += ETO_BLOCK) {
    const int64_t left = (int64_t)end - at, n = left < ETO_BLOCK ? left : ETO_BLOCK;
    eto_load(k->t, at, n, false, block);
    for (int64_t i = 0; i < n; i++) k->to[at + i] = (int16_t)(block[i] - k->zero);
  }
}

uint32_t eto_check_sums(const eto_call *c, const eto_tensor *x, const eto_tensor *out) {
  const int32_t wanted = x->dtype == EC_DTYPE_INT16 ? EC_DTYPE_INT64 : EC_DTYPE_INT32;
  return out->dtype == wanted
             ? EC_BACKEND_OK
             : EC_ARG_FAIL(c, "'out' has dtype %d, expected %d for sums", out->dtype, wanted);
}

uint32_t eto_centre(const eto_call *c, const eto_tensor *t, size_t zero_point, const char *name,
                    const int16_t **out) {
  centring k = {.t = t};
  if (t->dtype != EC_DTYPE_INT8 && t->dtype != EC_DTYPE_INT16)
    return EC_ARG_FAIL(c, "'%s' has dtype %d, expected int8 or int16", name, t->dtype);
  EC_BACKEND_TRY(eto_first(c, zero_point, "zero point", &k.zero));
  const int64_t least = t->dtype == EC_DTYPE_INT8 ? -128 : 0,
                most = t->dtype == EC_DTYPE_INT8 ? 127 : 0;
  if (k.zero < least || k.zero > most)
    return EC_ARG_FAIL(c, "the zero point of '%s' is %lld, expected %lld to %lld", name,
                       (long long)k.zero, (long long)least, (long long)most);
  EC_BACKEND_TRY(EC_ARG_SCRATCH(c, ec_arg_count(t), sizeof *k.to, &k.to));
  c->host->parallel_for(c->call, (size_t)ec_arg_count(t), 1 << 14, run_centring, &k);
  *out = k.to;
  return EC_BACKEND_OK;
}
