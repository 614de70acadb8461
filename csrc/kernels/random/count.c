/* Poisson and binomial numbers: small counts event by event, large ones by Hoermann's transformed
 * rejection (PTRS: Insurance: Mathematics and Economics 12, 1993; BTRS: Journal of Statistical
 * Computation and Simulation 46, 1993). The number of random bits per result varies. */
#include <math.h>

#include "kernels/copy.h"
#include "kernels/random/numbers.h"
#include "kernels/random/random.h"

enum { BLOCK = 256, REJECTION_MIN = 10 /* minimum of expected events for the rejection method */ };

static const double most = 0x1p53; /* doubles represent all integers up to it */

/* Returns a uniform number, 0 < u <= 1. */
static double next_uniform(ec_random *random) {
  uint64_t bits;
  ec_random_bits(random, &bits, 1);
  return 1 - (double)(bits >> 11) * 0x1p-53;
}

/* log(x!), x >= 0; Stirling's series from 10 on. */
static double log_factorial(double x) {
  double below = 1;
  for (; x < 10; x++) below *= x + 1;
  const double z = 1 / (x * x), tail = (1. / 12 - z * (1. / 360 - z / 1260)) / x;
  return (x + 0.5) * ec_log(x) - x + 0x1.d67f1c864beb4p-1 + tail - ec_log(below);
}

/* ---- Poisson ----------------------------------------------------------------------------- */

static double poisson_of(ec_random *random, double rate, double unused) {
  double k = 0;
  (void)unused;
  if (rate < REJECTION_MIN) {
    const double limit = ec_exp(-rate);
    for (double p = next_uniform(random); p > limit; p *= next_uniform(random)) k++;
    return k;
  }
  const double b = 0.931 + 2.53 * sqrt(rate), a = -0.059 + 0.02483 * b, log_rate = ec_log(rate);
  const double scale = ec_log(1.1239 + 1.1328 / (b - 3.4)), sure = 0.9277 - 3.6224 / (b - 2);
  for (;;) {
    const double u = next_uniform(random) - 0.5, v = next_uniform(random), us = 0.5 - fabs(u);
    k = floor((2 * a / us + b) * u + rate + 0.43);
    if (us >= 0.07 && v <= sure) return k;
    if (!(k >= 0 && k <= 2 * most) || (us < 0.013 && v > us)) continue;
    if (ec_log(v) + scale - ec_log(a / (us * us) + b) <= k * log_rate - rate - log_factorial(k))
      return k;
  }
}

/* ---- binomial ---------------------------------------------------------------------------- */

/* Few successes: the number of trials up to each success is geometric. */
static double few_of(ec_random *random, double count, double p) {
  const double fail = ec_log_complement(p);
  double k = 0, trials = 0;
  for (;; k++) {
    trials += floor(ec_log(next_uniform(random)) / fail) + 1;
    if (trials > count) return k;
  }
}

static double many_of(ec_random *random, double count, double p) {
  const double deviation = sqrt(count * p * (1 - p)), b = 1.15 + 2.53 * deviation;
  const double a = -0.0873 + 0.0248 * b + 0.01 * p, centre = count * p + 0.5, odds = p / (1 - p);
  const double scale = (2.83 + 5.1 / b) * deviation, mode = floor((count + 1) * p);
  const double sure = 0.92 - 4.2 / b, log_odds = ec_log(odds);
  const double top = log_factorial(mode) + log_factorial(count - mode);
  for (;;) {
    const double u = next_uniform(random) - 0.5, v = next_uniform(random), us = 0.5 - fabs(u);
    const double k = floor((2 * a / us + b) * u + centre);
    if (us >= 0.07 && v <= sure) return k;
    if (!(k >= 0 && k <= count)) continue;
    if (ec_log(v * scale / (a / (us * us) + b)) <=
        top - log_factorial(k) - log_factorial(count - k) + (k - mode) * log_odds)
      return k;
  }
}

/* As in eager PyTorch: 0 without trials or successes, all trials for a probability above 1, NaN for
 * NaN. */
static double binomial_of(ec_random *random, double count, double p) {
  if (isnan(p)) return p;
  if (count <= 0 || p <= 0) return 0;
  if (p >= 1) return count;
  if (p > 0.5) return count - binomial_of(random, count, 1 - p);
  return count * p < REJECTION_MIN ? few_of(random, count, p) : many_of(random, count, p);
}

/* ---- tensors of counts -------------------------------------------------------------------- */

/* A distribution with one or two parameters, and the message about the first one's range. */
typedef struct counts {
  double (*of)(ec_random *random, double a, double b);
  size_t inputs, out;
  double least;
  const char *before, *after;
} counts;

static ec_status draw_block(ec_call *c, const counts *d, int64_t n, double *a, const double *b) {
  for (int64_t k = 0; k < n; k++) {
    if (!(a[k] >= d->least && a[k] <= most))
      return ec_call_fail(c, 0, "%s%g%s 2^53", d->before, a[k], d->after);
    a[k] = d->of(c->random, a[k], b[k]);
  }
  return EC_OK;
}

/* Fills an output of the dtype and shape of argument 0. */
static ec_status draw_counts(ec_call *c, const counts *d) {
  const ec_tensor *self = ec_arg_tensor(c, 0);
  const ec_dtype dtype = ec_tensor_dtype(self);
  double x[2][BLOCK] = {{0}};
  ec_iter it;
  EC_TRY(ec_call_check_same_dtype(c, d->out, 0));
  EC_TRY(ec_call_resize(c, d->out, self->rank, self->sizes));
  const ec_cast_fn load = ec_cast(EC_FLOAT64, dtype), store = ec_cast(dtype, EC_FLOAT64);
  const int64_t item = sizeof(double);
  ec_iter_init(&it, self->rank, self->sizes);
  ec_iter_tensor(&it, ec_arg_tensor(c, d->out));
  for (size_t i = 0; i < d->inputs; i++) ec_iter_tensor(&it, ec_arg_tensor(c, i));
  for (bool more = ec_iter_start(&it); more; more = ec_iter_next(&it)) {
    for (int64_t i = 0; i < it.count; i += BLOCK) {
      const int64_t n = it.count - i < BLOCK ? it.count - i : BLOCK;
      for (size_t k = 0; k < d->inputs; k++)
        load(n, (char *)x[k], item, it.at[1 + k] + i * it.step[1 + k], it.step[1 + k]);
      EC_TRY(draw_block(c, d, n, x[0], x[1]));
      store(n, it.at[0] + i * it.step[0], it.step[0], (char *)x[0], item);
    }
  }
  return EC_OK;
}

ec_status ec_op_poisson_out(ec_call *c) {
  EC_TRY(ec_call_check_dtype(c, 0, EC_SET_FLOATING));
  return draw_counts(c, &(counts){poisson_of, 1, 2, 0, "a rate of ", ", expected from 0 to"});
}

ec_status ec_op_binomial_out(ec_call *c) {
  const ec_tensor *count = ec_arg_tensor(c, 0), *prob = ec_arg_tensor(c, 1);
  EC_TRY(ec_call_check_dtype(c, 0, EC_BIT(EC_FLOAT32) | EC_BIT(EC_FLOAT64)));
  EC_TRY(ec_call_check_same_dtype(c, 1, 0));
  if (!ec_broadcasts_to(prob->rank, prob->sizes, count->rank, count->sizes))
    return ec_call_fail(c, 1, "does not broadcast to the shape of 'count'");
  return draw_counts(c, &(counts){binomial_of, 2, 3, -(double)INFINITY, "",
                                  " trials, expected at most"});
}
