/* The generator, and the loop that turns its bits into distributions. */
#include "kernels/random/random.h"

#include "kernels/random/numbers.h"

enum { BLOCK = 256 };

/* ---- Philox4x32-10 ----------------------------------------------------------------------- */

static void philox(uint64_t seed, uint64_t counter, uint64_t out[2]) {
  uint32_t x[4] = {(uint32_t)counter, (uint32_t)(counter >> 32), 0, 0};
  uint32_t k0 = (uint32_t)seed, k1 = (uint32_t)(seed >> 32);
  for (int round = 0; round < 10; round++) {
    const uint64_t p = (uint64_t)0xD2511F53u * x[0], q = (uint64_t)0xCD9E8D57u * x[2];
    x[0] = (uint32_t)(q >> 32) ^ x[1] ^ k0;
    x[1] = (uint32_t)q;
    x[2] = (uint32_t)(p >> 32) ^ x[3] ^ k1;
    x[3] = (uint32_t)p;
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  out[0] = x[0] | (uint64_t)x[1] << 32;
  out[1] = x[2] | (uint64_t)x[3] << 32;
}

void ec_random_bits(ec_random *random, uint64_t *out, size_t n) {
  uint64_t last[2];
  for (size_t i = 0; i + 1 < n; i += 2) philox(random->seed, random->next++, out + i);
  if (n % 2 == 0) return;
  philox(random->seed, random->next++, last);
  out[n - 1] = last[0];
}

/* ---- distributions ----------------------------------------------------------------------- */

/* Digits of a dtype's significand: uniform numbers have no more, or they would round up to 1. */
static int digits(ec_dtype d) {
  return d == EC_FLOAT64 ? 53 : d == EC_BFLOAT16 ? 8 : d == EC_FLOAT16 ? 11 : 24;
}

/* [0, 1) of `count` binary digits, the last of which is worth `step`. */
static double unit(uint64_t bits, int count, double step) {
  return (double)(bits >> (64 - count)) * step;
}

/* (0, 1): has a logarithm. */
static double open_unit(uint64_t bits) { return ((double)(bits >> 12) + 0.5) * 0x1p-52; }

/* Box and Muller: two normal numbers from two uniform ones. */
static void normals(const uint64_t *bits, double *z, size_t n) {
  for (size_t i = 0; i < n; i += 2) {
    const double radius = sqrt(-2 * ec_log(open_unit(bits[i])));
    double cosine, sine;
    ec_turn(unit(bits[i + 1], 53, 0x1p-53), &cosine, &sine);
    z[i] = radius * cosine;
    z[i + 1] = radius * sine;
  }
}

/* Below `to` in a dtype of so many digits, wherever the sum rounds to. */
static double between(double from, double to, double u, double step) {
  const double x = from + (to - from) * u, last = to - fabs(to) * step;
  return x > last && last >= from && from < to ? last : x;
}

static double cauchy(double u, double median, double width) {
  double cosine, sine;
  ec_turn(u * 0.5, &cosine, &sine); /* tan of u half turns, less a quarter turn: -cos / sin */
  return median - width * (cosine / sine);
}

static double one(ec_dist dist, uint64_t bits, double z, double a, double b, int count,
                  double step) {
  switch (dist) {
  case EC_DIST_UNIFORM: return between(a, b, unit(bits, count, step), step);
  case EC_DIST_NORMAL: return a + b * z;
  case EC_DIST_LOG_NORMAL: return ec_exp(a + b * z);
  case EC_DIST_EXPONENTIAL: return -ec_log(open_unit(bits)) / a;
  case EC_DIST_GEOMETRIC: return fmax(1, ceil(ec_log(open_unit(bits)) / ec_log_complement(a)));
  case EC_DIST_CAUCHY: return cauchy(open_unit(bits), a, b);
  default: return unit(bits, 53, 0x1p-53) < a;
  }
}

typedef struct filling {
  ec_dist dist;
  ec_dtype out;
  ec_cast_fn to_out, to_a, to_b; /* the latter to float64 */
} filling;

static void fill_block(const filling *f, ec_random *random, const ec_iter *it, int64_t from,
                       int64_t n) {
  uint64_t bits[BLOCK];
  double z[BLOCK], a[BLOCK], b[BLOCK];
  const int64_t item = sizeof(double);
  const size_t even = (size_t)(n + n % 2);
  const int count = digits(f->out);
  const double step = ldexp(1, -count);
  ec_random_bits(random, bits, even);
  if (f->dist == EC_DIST_NORMAL || f->dist == EC_DIST_LOG_NORMAL) normals(bits, z, even);
  else memset(z, 0, sizeof z);
  f->to_a(n, (char *)a, item, it->at[1] + from * it->step[1], it->step[1]);
  f->to_b(n, (char *)b, item, it->at[2] + from * it->step[2], it->step[2]);
  for (int64_t i = 0; i < n; i++)
    z[i] = one(f->dist, bits[i], z[i], a[i], b[i], count, step);
  f->to_out(n, it->at[0] + from * it->step[0], it->step[0], (char *)z, item);
}

void ec_random_fill(ec_call *c, size_t o, ec_dist dist, const ec_tensor *a, const ec_tensor *b) {
  ec_tensor *out = ec_arg_tensor(c, o);
  const ec_dtype dtype = ec_tensor_dtype(out);
  const bool pairs = ec_is_complex(dtype), flat = a->rank == 0 && b->rank == 0;
  const ec_dtype real = !pairs ? dtype : dtype == EC_COMPLEX64 ? EC_FLOAT32 : EC_FLOAT64;
  const int64_t count = out->numel * (pairs ? 2 : 1), step = 1;
  const filling f = {dist, real, ec_cast(real, EC_FLOAT64),
                     ec_cast(EC_FLOAT64, ec_tensor_dtype(a)),
                     ec_cast(EC_FLOAT64, ec_tensor_dtype(b))};
  ec_iter it;
  ec_iter_init(&it, flat ? 1 : out->rank, flat ? &count : out->sizes);
  if (flat) ec_iter_add(&it, out->data, ec_dtype_size(real), 1, &count, &step); /* dense */
  else ec_iter_tensor(&it, out);
  ec_iter_tensor(&it, a);
  ec_iter_tensor(&it, b);
  for (bool more = ec_iter_start(&it); more; more = ec_iter_next(&it))
    for (int64_t i = 0; i < it.count; i += BLOCK)
      fill_block(&f, c->random, &it, i, it.count - i < BLOCK ? it.count - i : BLOCK);
}
