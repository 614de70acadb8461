/* sum and mean. */
#include "core/complex.h"
#include "core/simd.h"
#include "core/template.h"
#include "kernels/copy.h"
#include "kernels/reduce/reduce.h"

#if EC_SIMD_X86
#include <immintrin.h>
#endif

enum { SUM_LANES = 16, SUM_CHUNK = 4096 };

#define EC_TEMPLATE "kernels/reduce/sum_row.tmpl.h"
#include "core/foreach/all.h"
#undef EC_TEMPLATE

#if EC_SIMD_X86
#define SUM_512 __attribute__((target("avx512f")))
#define SUM_PART static inline __attribute__((always_inline))

/* The lanes of sum_row_float32 after its loop, as the four chains of additions. */
SUM_512 SUM_PART void sum_lanes(const float *x, int64_t n, __m256d *part) {
  __m512d low = _mm512_setzero_pd(), high = low;
  for (int64_t i = 0; i < n; i += SUM_LANES) {
    low = _mm512_add_pd(low, _mm512_cvtps_pd(_mm256_loadu_ps(x + i)));
    high = _mm512_add_pd(high, _mm512_cvtps_pd(_mm256_loadu_ps(x + i + SUM_LANES / 2)));
  }
  const __m256d first = _mm256_add_pd(_mm512_castpd512_pd256(low), _mm512_extractf64x4_pd(low, 1));
  *part = _mm256_add_pd(first, _mm256_add_pd(_mm512_castpd512_pd256(high),
                                             _mm512_extractf64x4_pd(high, 1)));
}

/* Adds the sums of two rows, whose lengths are whole lanes, with the bits of sum_row_float32. */
SUM_512 SUM_PART void sum_pair(double *a, const float *x, const float *y, int64_t n) {
  __m256d first, second;
  sum_lanes(x, n, &first);
  sum_lanes(y, n, &second);
  const __m256d pairs = _mm256_hadd_pd(first, second);
  const __m128d sums = _mm_add_pd(_mm256_castpd256_pd128(pairs), _mm256_extractf128_pd(pairs, 1));
  _mm_storeu_pd(a, _mm_add_pd(_mm_loadu_pd(a), sums));
}

/* Returns the number of rows that are done. */
SUM_512 static int64_t sum_pairs(double *a, const float *x, int64_t k, int64_t step, int64_t n) {
  int64_t i = 0;
  for (; i + 2 <= k; i += 2) sum_pair(a + i, x + i * step, x + (i + 1) * step, n);
  return i;
}

static bool has_pairs(int64_t n) { return n % SUM_LANES == 0 && __builtin_cpu_supports("avx512f"); }
#else
static int64_t sum_pairs(double *a, const float *x, int64_t k, int64_t step, int64_t n) {
  (void)a, (void)x, (void)k, (void)step, (void)n;
  return 0;
}
static bool has_pairs(int64_t n) { return n < 0; }
#endif

static void sum_floats(double *a, const float *x, int64_t k, int64_t step, int64_t n) {
  int64_t i = has_pairs(n) ? sum_pairs(a, x, k, step, n) : 0;
  for (; i < k; i++) a[i] += sum_row_float32(x + i * step, n);
}

#define EC_TEMPLATE "kernels/reduce/sum.tmpl.h"
#include "core/foreach/all.h"
#undef EC_TEMPLATE

static const ec_reduce_init inits[EC_DTYPE_COUNT] = {EC_ROWS_ALL(sum_init)};
static const ec_reduce_step steps[EC_DTYPE_COUNT] = {EC_ROWS_ALL(sum_step)};
static const ec_reduce_finish finishes[EC_DTYPE_COUNT] = {EC_ROWS_ALL(sum_finish)};
static const ec_reduce_finish mean_finishes[EC_DTYPE_COUNT] = {EC_ROWS_FLOATC(mean_finish)};
static const ec_reduce_merge merges[EC_DTYPE_COUNT] = {EC_ROWS_ALL(sum_merge)};

/* Sums `dims` of argument 0 into argument `out`, divided by their number for a mean. */
static ec_status reduce_sum(ec_call *c, ec_ints dims, bool keepdim, size_t dtype_arg, size_t out,
                            bool mean) {
  const ec_tensor *in = ec_arg_tensor(c, 0);
  ec_reduce_plan plan;
  uint32_t mask;
  ec_dtype dtype;
  EC_TRY(ec_reduce_dims(c, dims, true, in->rank, &mask));
  EC_TRY(ec_reduce_dtype(c, dtype_arg, out, &dtype));
  if (mean && !ec_dtype_in(dtype, EC_SET_FLOATC))
    return ec_call_fail(c, out, "dtype %s of a mean, expected floating point",
                        ec_dtype_name(dtype));
  if (mean && ec_arg_is_none(c, dtype_arg)) EC_TRY(ec_call_check_dtype(c, 0, EC_SET_FLOATC));
  ec_reduce_shape(&plan, in, mask, keepdim);
  EC_TRY(ec_reduce_resize(c, &plan, out));
  /* As in eager, means round to float16 or bfloat16 only at the end. */
  const ec_dtype as = mean && ec_dtype_in(dtype, EC_SET_HALF) ? EC_FLOAT32 : dtype;
  const bool direct = ec_tensor_dtype(in) == dtype || ec_reduce_direct(ec_tensor_dtype(in), as);
  if (!direct) EC_TRY(ec_reduce_cast(c, &plan, as, &in));
  ec_dtype computed = ec_tensor_dtype(&plan.in);
  ec_reduce_loops loops = {.init = inits[computed], .step = steps[computed],
                           .finish = (mean ? mean_finishes : finishes)[dtype],
                           .merge = merges[computed]};
  ec_tensor *const outs[2] = {ec_arg_tensor(c, out), NULL};
  ec_reduce_run(&plan, c, in, outs, &loops, mean ? (double)plan.count : 1.0);
  return EC_OK;
}

ec_status ec_op_sum_IntList_out(ec_call *c) {
  ec_ints dims;
  EC_TRY(ec_arg_ints(c, 1, &dims));
  return reduce_sum(c, dims, ec_arg_bool(c, 2), 3, 4, false);
}

ec_status ec_op_mean_out(ec_call *c) {
  ec_ints dims;
  EC_TRY(ec_arg_ints(c, 1, &dims));
  return reduce_sum(c, dims, ec_arg_bool(c, 2), 3, 4, true);
}

ec_status ec_op_mean_dtype_out(ec_call *c) {
  return reduce_sum(c, (ec_ints){NULL, 0}, false, 1, 2, true);
}
