/* Variances in two passes, in double: the mean, then the sum of squared distances from it. For
 * complex numbers, those of the real and imaginary parts add up. Accumulators: a the mean, b the
 * sum. */
#if EC_IS_COMPLEX
#define EC_MEAN double _Complex
#define EC_SQUARE(v) (creal(v) * creal(v) + cimag(v) * cimag(v))
#else
#define EC_MEAN double
#define EC_SQUARE(v) ((v) * (v))
#endif

static void EC_FN(var_init)(ec_reduce_acc acc, int64_t k) {
  EC_MEAN *a = acc.a;
  double *m2 = acc.b;
  for (int64_t i = 0; i < k; i++) a[i] = 0, m2[i] = 0;
}

static void EC_FN(var_first)(ec_reduce_acc acc, const ec_reduce_block *b) {
  EC_MEAN *a = acc.a;
  if (b->ks && b->ks < b->ns && !b->plain) { /* 0: a single result */
    for (int64_t r = 0; r < b->n; r++) {
      const EC_T *x = (const EC_T *)b->x + r * b->ns;
      for (int64_t i = 0; i < b->k; i++) a[i] += (EC_MEAN)EC_LOAD(x[i * b->ks]);
    }
    return;
  }
  for (int64_t i = 0; i < b->k; i++) {
    const EC_T *x = (const EC_T *)b->x + i * b->ks;
    EC_MEAN lane[VAR_LANES] = {0}, sum = 0;
    int64_t r = 0;
    for (; b->ns == 1 && r + VAR_LANES <= b->n; r += VAR_LANES)
      for (int64_t j = 0; j < VAR_LANES; j++) lane[j] += (EC_MEAN)EC_LOAD(x[r + j]);
    for (; r < b->n; r++) sum += (EC_MEAN)EC_LOAD(x[r * b->ns]);
    for (int64_t j = 0; j < VAR_LANES; j++) sum += lane[j];
    a[i] += sum;
  }
}

static void EC_FN(var_turn)(ec_reduce_acc acc, int64_t k, double count) {
  EC_MEAN *a = acc.a;
  for (int64_t i = 0; i < k; i++) a[i] /= count;
}

static void EC_FN(var_second)(ec_reduce_acc acc, const ec_reduce_block *b) {
  const EC_MEAN *a = acc.a;
  double *m2 = acc.b;
  if (b->ks && b->ks < b->ns && !b->plain) { /* 0: a single result */
    for (int64_t r = 0; r < b->n; r++) {
      const EC_T *x = (const EC_T *)b->x + r * b->ns;
      for (int64_t i = 0; i < b->k; i++) {
        EC_MEAN v = (EC_MEAN)EC_LOAD(x[i * b->ks]) - a[i];
        m2[i] += EC_SQUARE(v);
      }
    }
    return;
  }
  for (int64_t i = 0; i < b->k; i++) {
    const EC_T *x = (const EC_T *)b->x + i * b->ks;
    const EC_MEAN mean = a[i];
    double lane[VAR_LANES] = {0}, sum = 0;
    int64_t r = 0;
    for (; b->ns == 1 && r + VAR_LANES <= b->n; r += VAR_LANES)
      for (int64_t j = 0; j < VAR_LANES; j++) {
        EC_MEAN v = (EC_MEAN)EC_LOAD(x[r + j]) - mean;
        lane[j] += EC_SQUARE(v);
      }
    for (; r < b->n; r++) {
      EC_MEAN v = (EC_MEAN)EC_LOAD(x[r * b->ns]) - mean;
      sum += EC_SQUARE(v);
    }
    for (int64_t j = 0; j < VAR_LANES; j++) sum += lane[j];
    m2[i] += sum;
  }
}

static void EC_FN(var_merge)(ec_reduce_acc acc, ec_reduce_acc later) {
  *(EC_MEAN *)acc.a += *(const EC_MEAN *)later.a;
}

static void EC_FN(var_merge_again)(ec_reduce_acc acc, ec_reduce_acc later) {
  *(double *)acc.b += *(const double *)later.b;
}

/* Finishes in the input's dtype as doubles, which var.c converts to the outputs' dtypes. */
static void EC_FN(var_finish)(ec_reduce_acc acc, int64_t k, const ec_reduce_dst *d) {
  EC_MEAN *mean = (EC_MEAN *)d->out[1];
  double *var = (double *)d->out[0];
  const EC_MEAN *a = acc.a;
  const double *m2 = acc.b;
  for (int64_t i = 0; i < k; i++) var[i * d->stride[0]] = m2[i] / d->divisor;
  for (int64_t i = 0; mean && i < k; i++) mean[i * d->stride[1]] = a[i];
}

#undef EC_MEAN
#undef EC_SQUARE
