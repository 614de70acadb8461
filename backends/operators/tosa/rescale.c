/* RESCALE: from integers of one scale to integers of another. */
#include "operators.h"
#include "scale.h"

enum { GRAIN = 2048, MIN_SHIFT = 2, MAX_SHIFT = 62 };

typedef struct rescale {
  const eto_tensor *in, *out;
  const int64_t *multipliers, *shifts;
  int64_t channels; /* 1: not by channel */
  int64_t input_zp, output_zp, least, most;
  bool input_unsigned;
  eto_rounding rounding;
} rescale;

static void run_rescale(void *user, size_t begin, size_t end) {
  const rescale *r = user;
  int64_t block[ETO_BLOCK];
  for (int64_t at = (int64_t)begin; at < (int64_t)end; at += ETO_BLOCK) {
    const int64_t left = (int64_t)end - at, n = left < ETO_BLOCK ? left : ETO_BLOCK;
    int64_t channel = at % r->channels;
    eto_load(r->in, at, n, r->input_unsigned, block);
    for (int64_t i = 0; i < n; i++) {
      const int64_t x = eto_subtract(block[i], r->input_zp);
      const int64_t scaled =
          eto_scale(x, r->multipliers[channel], (int)r->shifts[channel], r->rounding);
      block[i] = eto_clip(eto_add(scaled, r->output_zp), r->least, r->most);
      if (++channel == r->channels) channel = 0;
    }
    eto_store(r->out, at, n, block);
  }
}

/* Reads multipliers or shifts: one, or one for each channel. */
static uint32_t read_factors(const eto_call *c, size_t i, const char *name, int64_t count,
                             const int64_t **out) {
  const eto_tensor *t;
  int64_t *numbers;
  EC_BACKEND_TRY(EC_ARG_TENSOR(c, i, name, ETO_INTEGERS, -1, &t));
  if (ec_arg_count(t) != count)
    return EC_ARG_FAIL(c, "'%s' has %lld elements, expected %lld", name, (long long)ec_arg_count(t),
                       (long long)count);
  EC_BACKEND_TRY(EC_ARG_SCRATCH(c, count, sizeof *numbers, &numbers));
  eto_load(t, 0, count, false, numbers);
  *out = numbers;
  return EC_BACKEND_OK;
}

static uint32_t check_factors(const eto_call *c, const rescale *r) {
  for (int64_t i = 0; i < r->channels; i++)
    if (r->multipliers[i] < 0)
      return EC_ARG_FAIL(c, "'multiplier' has %lld at index %lld, expected 0 or more",
                         (long long)r->multipliers[i], (long long)i);
  for (int64_t i = 0; i < r->channels; i++)
    if (r->shifts[i] < MIN_SHIFT || r->shifts[i] > MAX_SHIFT)
      return EC_ARG_FAIL(c, "'shift' has %lld at index %lld, expected %d to %d",
                         (long long)r->shifts[i], (long long)i, MIN_SHIFT, MAX_SHIFT);
  return EC_BACKEND_OK;
}

/* Reads a zero point with the sign of its tensor `t`: of 8 bits, or of 16 without a sign. */
static uint32_t read_zero(const eto_call *c, size_t i, const char *name, bool is_unsigned,
                          const eto_tensor *t, int64_t *out) {
  EC_BACKEND_TRY(eto_first(c, i, name, out));
  const size_t width = ec_backend_dtype_size(c->args[i].as.tensor.dtype);
  if (is_unsigned && width < 8) *out &= (INT64_C(1) << 8 * width) - 1;
  const bool has_zero =
      ec_backend_dtype_size(t->dtype) == 1 || (ec_backend_dtype_size(t->dtype) == 2 && is_unsigned);
  const int64_t span = has_zero ? eto_most(t->dtype) - eto_least(t->dtype) : 0;
  const int64_t least = is_unsigned || !has_zero ? 0 : eto_least(t->dtype);
  if (*out >= least && *out <= least + span) return EC_BACKEND_OK;
  return EC_ARG_FAIL(c, "'%s' is %lld, expected %lld to %lld", name, (long long)*out,
                     (long long)least, (long long)(least + span));
}

uint32_t eto_rescale(const eto_call *c) {
  const ec_backend_arg *a = c->args;
  rescale r = {.rounding = (eto_rounding)a[6].as.i, .input_unsigned = a[8].as.b};
  const bool output_unsigned = a[9].as.b;
  if (a[6].as.i < ETO_SINGLE || a[6].as.i > ETO_DOUBLE)
    return EC_ARG_FAIL(c, "'rounding_mode' is %lld, expected 1 to 3", (long long)a[6].as.i);
  EC_BACKEND_TRY(EC_ARG_TENSOR(c, 0, "input", ETO_INTEGERS, -1, &r.in));
  r.channels = a[7].as.b && r.in->rank ? r.in->sizes[r.in->rank - 1u] : 1;
  EC_BACKEND_TRY(read_factors(c, 1, "multiplier", r.channels, &r.multipliers));
  EC_BACKEND_TRY(read_factors(c, 2, "shift", r.channels, &r.shifts));
  EC_BACKEND_TRY(check_factors(c, &r));
  EC_BACKEND_TRY(EC_ARG_OUTPUT(c, 10, ETO_INTEGERS, r.in->rank, r.in->sizes, &r.out));
  EC_BACKEND_TRY(read_zero(c, 3, "input_zp", r.input_unsigned, r.in, &r.input_zp));
  EC_BACKEND_TRY(read_zero(c, 4, "output_zp", output_unsigned, r.out, &r.output_zp));
  r.least = output_unsigned ? 0 : eto_least(r.out->dtype);
  r.most = output_unsigned ? eto_most(r.out->dtype) * 2 + 1 : eto_most(r.out->dtype);
  if (output_unsigned && ec_backend_dtype_size(r.out->dtype) > 2)
    return EC_ARG_FAIL(c, "'out' has dtype %d, expected int8 or int16 for unsigned numbers",
                       r.out->dtype);
  c->host->parallel_for(c->call, (size_t)ec_arg_count(r.in), GRAIN, run_rescale, &r);
  return EC_BACKEND_OK;
}
