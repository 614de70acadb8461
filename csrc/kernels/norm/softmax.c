/* _softmax and _log_softmax along any dimension of any layout. */
#include <math.h>
#include <string.h>

#include "core/alloc.h"
#include "core/checked.h"
#include "core/simd.h"
#include "core/template.h"
#include "kernels/iterate.h"
#include "kernels/vecmath.h"

#if EC_SIMD_X86
#include <immintrin.h>
#endif

enum {
  SOFTMAX_LANES = 16,   /* partial sums of a row */
  SOFTMAX_BLOCK = 1024, /* elements whose sum stays in the compute type */
  SOFTMAX_COST = 4,     /* of an element, relative to a copied one */
  SOFTMAX_BATCH = 16,   /* short rows whose logarithms are computed at once */
  SOFTMAX_ROWS = 64     /* adjacent rows: some cache lines, so that memory is prefetched */
};

typedef double softmax_doubles __attribute__((vector_size(SOFTMAX_LANES / 2 * sizeof(double))));

/* A part of a function with EC_CLONES. */
#define SOFTMAX_PART static inline __attribute__((always_inline))

#define EC_TEMPLATE "kernels/norm/softmax.tmpl.h"
#include "core/foreach/floating.h"
#undef EC_TEMPLATE

typedef void (*softmax_fn)(const char *from, int64_t step, char *to, int64_t to_step, size_t n,
                           void *buffer, bool log_of, bool zero_rows);

static const softmax_fn rows[EC_DTYPE_COUNT] = {EC_ROWS_FLOATING(softmax_row)};
static const softmax_fn lanes[EC_DTYPE_COUNT] = {EC_ROWS_FLOATING(softmax_lanes)};

/* ---- rows of float32 with AVX-512 --------------------------------------------------------- */

#if EC_SIMD_X86
#ifdef __clang__ /* it ignores the whole attribute if it does not know a part */
#define SOFTMAX_512 __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,fma")))
#else
#define SOFTMAX_512                                                                                \
  __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,fma,prefer-vector-width=512")))
#endif

/* e^x for x <= 0, or NaN: ec_exp_f32 with multiply-adds and a minimax polynomial. */
SOFTMAX_PART float exp_below(float x) {
  const float in = x < -104.0f ? -104.0f : x;
  const float shifted = __builtin_fmaf(in, 1.44269504f, 0x1.8p23f), n = shifted - 0x1.8p23f;
  const float high = __builtin_fmaf(n, -0x1.62e4p-1f, in);
  const float r = __builtin_fmaf(n, -0x1.7f7d1cp-20f, high);
  float q = __builtin_fmaf(r, 0x1.6db4e4p-10f, 0x1.123be0p-7f);
  q = __builtin_fmaf(q, r, 0x1.55545ep-5f);
  q = __builtin_fmaf(q, r, 0x1.55548ep-3f);
  q = __builtin_fmaf(q, r, 0.5f);
  const float p = __builtin_fmaf(q, r * r, r) + 1.0f;
  const int32_t whole = (int32_t)(ec_float_bits(shifted) - 0x4b400000u), half = whole >> 1;
  const float a = ec_bits_float((uint32_t)(half + 127) << 23);
  return p * a * ec_bits_float((uint32_t)(whole - half + 127) << 23);
}

#define SOFTMAX_STEP(p, x, c) _mm512_fmadd_ps(p, x, _mm512_set1_ps(c))

/* exp_below of a vector, with equal bits. */
SOFTMAX_512 SOFTMAX_PART void exp_vector(const float *x, float m, vector_float32 *out) {
  const __m512 less = _mm512_sub_ps(_mm512_loadu_ps(x), _mm512_set1_ps(m));
  const __m512 in = _mm512_max_ps(_mm512_set1_ps(-104.0f), less); /* NaN is the second operand */
  const __m512 shifted = SOFTMAX_STEP(in, _mm512_set1_ps(1.44269504f), 0x1.8p23f);
  const __m512 n = _mm512_sub_ps(shifted, _mm512_set1_ps(0x1.8p23f));
  const __m512 high = _mm512_fmadd_ps(n, _mm512_set1_ps(-0x1.62e4p-1f), in);
  const __m512 r = _mm512_fmadd_ps(n, _mm512_set1_ps(-0x1.7f7d1cp-20f), high);
  __m512 q = SOFTMAX_STEP(r, _mm512_set1_ps(0x1.6db4e4p-10f), 0x1.123be0p-7f);
  q = SOFTMAX_STEP(q, r, 0x1.55545ep-5f);
  q = SOFTMAX_STEP(q, r, 0x1.55548ep-3f);
  q = SOFTMAX_STEP(q, r, 0.5f);
  const __m512 p = _mm512_fmadd_ps(q, _mm512_mul_ps(r, r), r);
  *out = (vector_float32)_mm512_scalef_ps(_mm512_add_ps(p, _mm512_set1_ps(1)), n);
}

/* Returns the sum of e^(x - m), which `to` receives unless it is NULL. */
SOFTMAX_512 static double sum_row_512(const float *x, size_t n, float m, float *to) {
  double total = 0;
  for (size_t from = 0; from < n; from += SOFTMAX_BLOCK) {
    const size_t end = n - from < SOFTMAX_BLOCK ? n : from + SOFTMAX_BLOCK;
    vector_float32 sums = {0}, v;
    size_t i = from;
    for (; i + SOFTMAX_LANES <= end; i += SOFTMAX_LANES) {
      exp_vector(x + i, m, &v);
      sums += v;
      if (to) memcpy(to + i, &v, sizeof v);
    }
    for (size_t l = 0; i < end; i++, l++) {
      const float e = exp_below(x[i] - m);
      sums[l] += e;
      if (to) to[i] = e;
    }
    total += sum_of_lanes_float32(&sums);
  }
  return total;
}

/* log(s) for a sum 1 <= s < 2^1000, by the series of atanh((m - 1) / (m + 1)) for s = 2^e m. */
SOFTMAX_PART double log_of_sum(double s) {
  uint64_t bits;
  double m;
  memcpy(&bits, &s, sizeof bits);
  const uint64_t e = (bits - 0x3fe6a09e667f3bcdu) >> 52; /* sqrt(1/2) <= m < sqrt(2) */
  bits -= e << 52;
  memcpy(&m, &bits, sizeof m);
  const double z = (m - 1) / (m + 1), w = z * z;
  const double tail = 1.0 / 7 + w * (1.0 / 9 + w * (1.0 / 11 + w * (1.0 / 13)));
  return (double)e * 0x1.62e42fefa39efp-1 + 2 * z * (1 + w * (1.0 / 3 + w * (1.0 / 5 + w * tail)));
}

/* Replaces sums by their logarithms. */
SOFTMAX_PART void take_logs(double *sums) {
  bool usual = true;
  for (size_t r = 0; r < SOFTMAX_BATCH; r++) usual &= sums[r] >= 1 && sums[r] < 0x1p1000;
  for (size_t r = 0; !usual && r < SOFTMAX_BATCH; r++) sums[r] = log(sums[r]);
  for (size_t r = 0; usual && r < SOFTMAX_BATCH; r++) sums[r] = log_of_sum(sums[r]);
}

/* Some contiguous rows: passes without a copy of them, and their logarithms at once. `step`: bytes
 * between rows. */
SOFTMAX_512 static void close_rows_512(const char *in, int64_t step, char *out, int64_t out_step,
                                       size_t rows_count, size_t n, bool log_of) {
  float m[SOFTMAX_BATCH];
  double sums[SOFTMAX_BATCH];
  for (size_t r = 0; r < SOFTMAX_BATCH; r++) sums[r] = 1;
  for (size_t r = 0; r < rows_count; r++) {
    const float *x = (const float *)(const void *)(in + (int64_t)r * step);
    float *y = (float *)(void *)(out + (int64_t)r * out_step);
    m[r] = largest_float32(x, n);
    sums[r] = sum_row_512(x, n, m[r], log_of ? NULL : y);
    const float scale = (float)(1 / sums[r]);
    for (size_t i = 0; !log_of && i < n; i++) y[i] *= scale;
  }
  if (!log_of) return;
  take_logs(sums);
  for (size_t r = 0; r < rows_count; r++) {
    const float *x = (const float *)(const void *)(in + (int64_t)r * step);
    float *y = (float *)(void *)(out + (int64_t)r * out_step);
    const float less = m[r], shift = (float)sums[r];
    for (size_t i = 0; i < n; i++) y[i] = (x[i] - less) - shift;
  }
}

static bool has_512(void) {
  return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
}
#else
static void close_rows_512(const char *in, int64_t step, char *out, int64_t out_step,
                           size_t rows_count, size_t n, bool log_of) {
  (void)in, (void)step, (void)out, (void)out_step, (void)rows_count, (void)n, (void)log_of;
}
static bool has_512(void) { return false; }
#endif

enum { SELF, DIM, HALF_TO_FLOAT, OUT };

/* One row of the dimension: its length and steps. */
typedef struct softmax {
  ec_dtype dtype;
  size_t n;
  int64_t step, out_step;
  char *buffer; /* `room` bytes per piece */
  size_t room;
  bool log_of, zero_rows, reference;
} softmax;

/* True if rows are adjacent in memory. */
static bool is_adjacent(const softmax *s, const ec_iter *it) {
  const int64_t item = (int64_t)ec_dtype_size(s->dtype);
  return it->step[0] == item && it->step[1] == item && !s->reference && !s->zero_rows;
}

/* True if rows are contiguous, and close_rows_512 computes them. */
static bool is_row_512(const softmax *s) {
  return s->dtype == EC_FLOAT32 && s->step == 1 && s->out_step == 1 && !s->reference &&
         !s->zero_rows && has_512();
}

/* Runs the rows from it->at on: operand 0 is the output, 1 the input. */
static void run_rows(const softmax *s, const ec_iter *it, void *buffer) {
  int64_t item = (int64_t)ec_dtype_size(s->dtype), i = 0;
  const bool adjacent = is_adjacent(s, it);
  for (; adjacent && i + SOFTMAX_ROWS <= it->count; i += SOFTMAX_ROWS)
    lanes[s->dtype](it->at[1] + i * item, s->step, it->at[0] + i * item, s->out_step, s->n,
                    buffer, s->log_of, false);
  const int64_t batch = s->n <= SOFTMAX_BLOCK ? SOFTMAX_BATCH : 1;
  const bool is_512 = is_row_512(s);
  for (; is_512 && i < it->count; i += batch)
    close_rows_512(it->at[1] + i * it->step[1], it->step[1], it->at[0] + i * it->step[0],
                   it->step[0], (size_t)ec_min_i64(batch, it->count - i), s->n, s->log_of);
  for (; i < it->count; i++)
    rows[s->dtype](it->at[1] + i * it->step[1], s->step, it->at[0] + i * it->step[0], s->out_step,
                   s->n, buffer, s->log_of, s->zero_rows);
}

static void run_piece(void *user, ec_iter *it, size_t piece) {
  const softmax *s = user;
  do run_rows(s, it, s->buffer + piece * s->room);
  while (ec_iter_next(it));
}

static ec_status run_softmax(ec_call *c, bool log_of) {
  const ec_tensor *self = ec_arg_tensor(c, SELF);
  ec_tensor *out = ec_arg_tensor(c, OUT);
  size_t dim, bytes;
  EC_TRY(ec_call_check_dtype(c, SELF, EC_SET_FLOATING));
  EC_TRY(ec_call_check_same_dtype(c, OUT, SELF));
  if (ec_arg_bool(c, HALF_TO_FLOAT))
    return ec_call_fail(c, HALF_TO_FLOAT, "true, expected false: supported only on GPUs");
  EC_TRY(ec_call_wrap_dim(c, ec_arg_int(c, DIM), self->rank, &dim));
  EC_TRY(ec_call_resize(c, OUT, self->rank, self->sizes));
  if (self->numel == 0) return EC_OK;
  softmax s = {.dtype = ec_tensor_dtype(self), .n = 1, .step = 1, .out_step = 1,
               .log_of = log_of, .zero_rows = c->zero_rows, .reference = c->reference};
  int64_t sizes[EC_MAX_RANK];
  for (size_t d = 0; d < self->rank; d++) sizes[d] = d == dim ? 1 : self->sizes[d];
  if (self->rank) {
    s.n = (size_t)self->sizes[dim];
    s.step = self->strides[dim];
    s.out_step = out->strides[dim];
  }
  ec_iter it;
  ec_iter_init(&it, self->rank, sizes);
  size_t item = ec_dtype_size(s.dtype);
  ec_iter_add(&it, out->data, item, out->rank, sizes, out->strides);
  ec_iter_add(&it, self->data, item, self->rank, sizes, self->strides);
  (void)ec_iter_start(&it); /* there are elements */
  it.unit = is_adjacent(&s, &it) ? SOFTMAX_ROWS : 1;
  size_t pieces = ec_iter_pieces(c, &it, s.n * SOFTMAX_COST);
  if (ec_mul_size(s.n, SOFTMAX_ROWS * sizeof(double), &s.room) &&
      ec_mul_size(s.room, pieces, &bytes))
    s.buffer = ec_arena_alloc(c->scratch, bytes, EC_ALIGN);
  if (!s.buffer) return ec_fail(c->err, EC_MEMORY_ALLOCATION_FAILED, "no memory for a row");
  ec_iter_run(c, &it, pieces, run_piece, &s);
  return EC_OK;
}

ec_status ec_op_softmax_out(ec_call *c) { return run_softmax(c, false); }

ec_status ec_op_log_softmax_out(ec_call *c) { return run_softmax(c, true); }
