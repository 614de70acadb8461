/* Running sums along one dimension, in double or modulo 2^64. Steps in elements. */
#if EC_IS_COMPLEX
#define EC_SUM double _Complex
#elif EC_IS_FLOAT
#define EC_SUM double
#else
#define EC_SUM uint64_t
#endif

static void EC_FN(cumsum_line)(void *dst, int64_t ds, const void *src, int64_t ss, int64_t n) {
  EC_T *out = dst;
  const EC_T *x = src;
  EC_SUM sum = 0;
  for (int64_t i = 0; i < n; i++) {
    sum += (EC_SUM)EC_LOAD(x[i * ss]);
    out[i * ds] = EC_STORE((EC_C)sum);
  }
}

/* Up to SUM_COLUMNS neighbours at once, each with its own sum. */
static void EC_FN(cumsum_columns)(void *dst, int64_t ds, const void *src, int64_t ss, int64_t n,
                                  int64_t k) {
  EC_T *out = dst;
  const EC_T *x = src;
  EC_SUM sum[CUMSUM_COLUMNS] = {0};
  for (int64_t i = 0; i < n; i++)
    for (int64_t j = 0; j < k; j++) {
      sum[j] += (EC_SUM)EC_LOAD(x[i * ss + j]);
      out[i * ds + j] = EC_STORE((EC_C)sum[j]);
    }
}

#undef EC_SUM
