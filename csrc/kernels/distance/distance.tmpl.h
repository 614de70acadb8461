/* The distance of two rows of n elements. Sums run in lanes, so that the loops vectorise. */
static inline EC_T EC_FN(join)(norm_kind kind, EC_T sum, EC_T d) {
  if (kind == NORM_MAX) return d > sum ? d : sum;
  if (kind == NORM_MAX_NAN) return d > sum || d != d ? d : sum;
  return sum + d;
}

static inline EC_T EC_FN(term)(norm_kind kind, EC_T d, EC_T p) {
  if (kind == NORM_COUNT) return d > 0 ? 1 : d; /* keeps NaN */
  if (kind == NORM_SQUARE) return d * d;
  return kind == NORM_POWER ? pow(d, p) : d;
}

static inline __attribute__((always_inline)) EC_T EC_FN(row)(const norm_kind kind, const EC_T *a,
                                                             const EC_T *b, int64_t n, EC_T p) {
  EC_T lanes[LANES] = {0};
  int64_t i = 0;
  for (; i + LANES <= n; i += LANES)
    for (int64_t k = 0; k < LANES; k++)
      lanes[k] = EC_FN(join)(kind, lanes[k], EC_FN(term)(kind, fabs(a[i + k] - b[i + k]), p));
  for (int64_t k = 0; i < n; i++, k++)
    lanes[k] = EC_FN(join)(kind, lanes[k], EC_FN(term)(kind, fabs(a[i] - b[i]), p));
  EC_T sum = lanes[0];
  for (int64_t k = 1; k < LANES; k++) sum = EC_FN(join)(kind, sum, lanes[k]);
  return kind == NORM_SQUARE ? sqrt(sum) : kind == NORM_POWER ? pow(sum, 1 / p) : sum;
}

/* Computes the distances from row `x` to `count` contiguous rows. */
static void EC_FN(distances)(const ec_distance *d, char *out, int64_t step, const char *x,
                             const char *others, int64_t count) {
  const EC_T *a = (const EC_T *)(const void *)x, *b = (const EC_T *)(const void *)others;
  const int64_t n = d->n;
  for (int64_t i = 0; i < count; i++, b += n) {
    EC_T *o = (EC_T *)(void *)(out + i * step);
    switch (d->kind) {
    case NORM_COUNT: *o = EC_FN(row)(NORM_COUNT, a, b, n, 0); break;
    case NORM_SUM: *o = EC_FN(row)(NORM_SUM, a, b, n, 0); break;
    case NORM_SQUARE: *o = EC_FN(row)(NORM_SQUARE, a, b, n, 0); break;
    case NORM_MAX: *o = EC_FN(row)(NORM_MAX, a, b, n, 0); break;
    case NORM_MAX_NAN: *o = EC_FN(row)(NORM_MAX_NAN, a, b, n, 0); break;
    case NORM_POWER: *o = EC_FN(row)(NORM_POWER, a, b, n, (EC_T)d->p); break;
    }
  }
}
