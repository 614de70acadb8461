/* Steps of a sum, with the rows and columns of sum_row.tmpl.h. */
#include "kernels/reduce/wide.tmpl.h"

/* Adds up to SUM_CHUNK elements of `k` rows; float16 uses the conversion instructions. */
static void EC_FN(sum_rows)(EC_WIDE *a, const EC_T *x, int64_t k, int64_t step, int64_t n) {
#if EC_IS_FLOAT
  if (EC_ID == EC_FLOAT32) {
    sum_floats((double *)(void *)a, (const float *)(const void *)x, k, step, n);
    return;
  }
  float wide[SUM_CHUNK];
  const int64_t to = sizeof *wide, from = sizeof *x;
  for (int64_t i = 0; EC_ID == EC_FLOAT16 && i < k; i++) {
    ec_cast(EC_FLOAT32, EC_FLOAT16)(n, (char *)wide, to, (const char *)(x + i * step), from);
    sum_floats((double *)(void *)(a + i), wide, 1, 0, n);
  }
  if (EC_ID == EC_FLOAT16) return;
#endif
  for (int64_t i = 0; i < k; i++) a[i] += EC_FN(sum_row)(x + i * step, n);
}

static void EC_FN(sum_step)(ec_reduce_acc acc, const ec_reduce_block *b) {
  const EC_T *x = (const EC_T *)b->x;
  EC_WIDE *a = acc.a;
  if (b->ns == 1 && b->n >= SUM_LANES && !b->plain) {
    for (int64_t i = 0, rows = b->n > SUM_CHUNK ? 1 : b->k; i < b->k; i += rows)
      for (int64_t r = 0; r < b->n; r += SUM_CHUNK) /* chunks keep long sums exact */
        EC_FN(sum_rows)(a + i, x + i * b->ks + r, rows, b->ks,
                        b->n - r < SUM_CHUNK ? b->n - r : SUM_CHUNK);
  } else if (b->ks == 1 && !b->plain) {
    for (int64_t r = 0; r < b->n; r++) EC_FN(sum_columns)(a, x + r * b->ns, b->k);
  } else {
    for (int64_t i = 0; i < b->k; i++)
      for (int64_t r = 0; r < b->n; r++) a[i] += (EC_WIDE)EC_LOAD(x[i * b->ks + r * b->ns]);
  }
}

static void EC_FN(sum_init)(ec_reduce_acc acc, int64_t k) {
  EC_WIDE *a = acc.a;
  for (int64_t i = 0; i < k; i++) a[i] = 0;
}

static void EC_FN(sum_merge)(ec_reduce_acc acc, ec_reduce_acc later) {
  *(EC_WIDE *)acc.a += *(const EC_WIDE *)later.a;
}

/* Finishes a sum in the output's dtype, whose accumulators are of the same kind as the input's. */
static void EC_FN(sum_finish)(ec_reduce_acc acc, int64_t k, const ec_reduce_dst *d) {
  EC_T *out = (EC_T *)d->out[0];
  const EC_WIDE *a = acc.a;
  for (int64_t i = 0; i < k; i++) out[i * d->stride[0]] = EC_STORE((EC_C)a[i]);
}

#if EC_IS_FLOAT || EC_IS_COMPLEX
static void EC_FN(mean_finish)(ec_reduce_acc acc, int64_t k, const ec_reduce_dst *d) {
  EC_T *out = (EC_T *)d->out[0];
  const EC_WIDE *a = acc.a;
  for (int64_t i = 0; i < k; i++)
    out[i * d->stride[0]] = EC_STORE((EC_C)ec_over(a[i], d->divisor));
}
#endif
