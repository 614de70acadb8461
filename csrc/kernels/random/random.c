/* The generator, and the loop that converts its bits to distributions. */
#include "kernels/random/random.h"

#include "core/simd.h"
#include "kernels/random/numbers.h"

enum { BLOCK = 256 };

/* ---- Philox4x32-10 ----------------------------------------------------------------------- */

/* Computes two words from each of `n` counters: lanes of a vector, with ten rounds in registers. */
EC_CLONES static void fill_philox(uint64_t seed, uint64_t counter, uint64_t *out, size_t n) {
  for (size_t i = 0; i < n; i++) {
    uint32_t x0 = (uint32_t)(counter + i), x1 = (uint32_t)((counter + i) >> 32), x2 = 0, x3 = 0;
    uint32_t k0 = (uint32_t)seed, k1 = (uint32_t)(seed >> 32);
    for (int round = 0; round < 10; round++) {
      const uint64_t p = (uint64_t)0xD2511F53u * x0, q = (uint64_t)0xCD9E8D57u * x2;
      x0 = (uint32_t)(q >> 32) ^ x1 ^ k0;
      x1 = (uint32_t)q;
      x2 = (uint32_t)(p >> 32) ^ x3 ^ k1;
      x3 = (uint32_t)p;
      k0 += 0x9E3779B9u;
      k1 += 0xBB67AE85u;
    }
    out[2 * i] = x0 | (uint64_t)x1 << 32;
    out[2 * i + 1] = x2 | (uint64_t)x3 << 32;
  }
}

void ec_random_bits(ec_random *random, uint64_t *out, size_t n) {
  uint64_t last[2];
  fill_philox(random->seed, random->next, out, n / 2);
  random->next += n / 2;
  if (n % 2 == 0) return;
  fill_philox(random->seed, random->next++, last, 1);
  out[n - 1] = last[0];
}

/* ---- distributions ----------------------------------------------------------------------- */

/* Returns the digits of a dtype's significand. Uniform numbers have no more digits, because they
 * could round up to 1. */
static int significand_bits(ec_dtype d) {
  return d == EC_FLOAT64 ? 53 : d == EC_BFLOAT16 ? 8 : d == EC_FLOAT16 ? 11 : 24;
}

/* [0, 1) from the upper 53 bits, in int32 halves: vectors cannot convert wider integers. */
static inline double unit_double(uint64_t bits) {
  return (int32_t)(bits >> 38) * 0x1p-26 + (int32_t)(bits >> 11 & 0x7FFFFFF) * 0x1p-53;
}

/* (0, 1), for logarithms: the last bit is set. */
static inline double open_unit(uint64_t bits) { return unit_double(bits | 1 << 11); }

/* Box-Muller: two normal numbers from two uniform ones. Separate steps, so that loops vectorise. */
EC_CLONES static void fill_normals(const uint64_t *bits, double *z, size_t n) {
  double radius[BLOCK / 2];
  for (size_t i = 0; i < n / 2; i++) radius[i] = -2 * ec_log(open_unit(bits[2 * i]));
  for (size_t i = 0; i < n / 2; i++) radius[i] = sqrt(radius[i]);
  for (size_t i = 0; i < n / 2; i++) {
    double cosine, sine;
    ec_turn(unit_double(bits[2 * i + 1]), &cosine, &sine);
    z[2 * i] = radius[i] * cosine;
    z[2 * i + 1] = radius[i] * sine;
  }
}

/* Returns a number below `to` in a dtype with a given number of digits, despite rounding. */
static inline double uniform_between(double from, double to, double u, double step) {
  const double x = from + (to - from) * u, last = to - fabs(to) * step;
  return x > last && last >= from && from < to ? last : x;
}

static inline double cauchy_quantile(double u, double median, double width) {
  double cosine, sine;
  ec_turn(u * 0.5, &cosine, &sine); /* tan of u half turns minus a quarter turn: -cos / sin */
  return median - width * (cosine / sine);
}

/* Converts words, or the normal numbers already in z, to n numbers z; one loop per distribution. */
EC_CLONES static void fill_dist(ec_dist dist, int count, const uint64_t *bits, const double *a,
                                const double *b, double *z, int64_t n) {
  const uint64_t kept = ~UINT64_C(0) << (64 - count);
  const double step = ldexp(1, -count);
  switch (dist) {
  case EC_DIST_UNIFORM:
    for (int64_t i = 0; i < n; i++)
      z[i] = uniform_between(a[i], b[i], unit_double(bits[i] & kept), step);
    break;
  case EC_DIST_NORMAL:
    for (int64_t i = 0; i < n; i++) z[i] = a[i] + b[i] * z[i];
    break;
  case EC_DIST_LOG_NORMAL:
    for (int64_t i = 0; i < n; i++) z[i] = ec_exp(a[i] + b[i] * z[i]);
    break;
  case EC_DIST_EXPONENTIAL:
    for (int64_t i = 0; i < n; i++) z[i] = -ec_log(open_unit(bits[i])) / a[i];
    break;
  case EC_DIST_GEOMETRIC:
    for (int64_t i = 0; i < n; i++)
      z[i] = fmax(1, ceil(ec_log(open_unit(bits[i])) / ec_log_complement(a[i])));
    break;
  case EC_DIST_CAUCHY:
    for (int64_t i = 0; i < n; i++) z[i] = cauchy_quantile(open_unit(bits[i]), a[i], b[i]);
    break;
  default:
    for (int64_t i = 0; i < n; i++) z[i] = unit_double(bits[i]) < a[i];
  }
}

typedef struct filling {
  ec_dist dist;
  ec_dtype out;
  ec_cast_fn to_out, to_a, to_b; /* the latter two to float64 */
  double a[BLOCK], b[BLOCK];
} filling;

static void fill_block(filling *f, ec_random *random, const ec_iter *it, int64_t from, int64_t n) {
  uint64_t bits[BLOCK];
  double z[BLOCK];
  const int64_t item = sizeof(double);
  const size_t even = (size_t)(n + n % 2);
  ec_random_bits(random, bits, even);
  if (f->dist == EC_DIST_NORMAL || f->dist == EC_DIST_LOG_NORMAL) fill_normals(bits, z, even);
  if (!from || it->step[1]) /* otherwise the first block's numbers stay valid */
    f->to_a(n, (char *)f->a, item, it->at[1] + from * it->step[1], it->step[1]);
  if (!from || it->step[2])
    f->to_b(n, (char *)f->b, item, it->at[2] + from * it->step[2], it->step[2]);
  fill_dist(f->dist, significand_bits(f->out), bits, f->a, f->b, z, n);
  f->to_out(n, it->at[0] + from * it->step[0], it->step[0], (char *)z, item);
}

void ec_random_fill(ec_call *c, size_t o, ec_dist dist, const ec_tensor *a, const ec_tensor *b) {
  ec_tensor *out = ec_arg_tensor(c, o);
  const ec_dtype dtype = ec_tensor_dtype(out);
  const bool pairs = ec_is_complex(dtype), flat = a->rank == 0 && b->rank == 0;
  const ec_dtype real = !pairs ? dtype : dtype == EC_COMPLEX64 ? EC_FLOAT32 : EC_FLOAT64;
  const int64_t count = out->numel * (pairs ? 2 : 1), step = 1;
  filling f = {dist, real, ec_cast(real, EC_FLOAT64), ec_cast(EC_FLOAT64, ec_tensor_dtype(a)),
               ec_cast(EC_FLOAT64, ec_tensor_dtype(b)), {0}, {0}};
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
