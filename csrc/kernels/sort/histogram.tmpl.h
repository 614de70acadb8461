/* Counts in bins of equal width, each step rounded to the dtype as in eager. */
#define EC_ROUND(x) EC_LOAD(EC_STORE(x))

static void EC_FN(histogram)(const void *data, int64_t n, void *out, int64_t bins, double from,
                             double to) {
  const EC_T *x = data;
  EC_T *count = out;
  EC_C low = EC_ROUND((EC_C)from), high = EC_ROUND((EC_C)to), many = EC_ROUND((EC_C)bins);
  EC_C width = EC_ROUND(high - low);
  for (int64_t i = 0; i < n; i++) {
    EC_C v = EC_LOAD(x[i]);
    if (!(v >= low && v <= high)) continue;
    EC_C at = EC_ROUND(EC_ROUND(EC_ROUND(v - low) * many) / width);
    int64_t bin = at < many ? (int64_t)at : bins - 1;
    if (bin >= bins) bin = bins - 1; /* `many` may have been rounded up */
    count[bin] = EC_STORE(EC_LOAD(count[bin]) + 1);
  }
}

static void EC_FN(range)(const void *data, int64_t n, double *from, double *to) {
  const EC_T *x = data;
  EC_C low = EC_LOAD(x[0]), high = low;
  for (int64_t i = 0; i < n; i++) {
    EC_C v = EC_LOAD(x[i]);
    low = v < low || v != v ? v : low;
    high = v > high || v != v ? v : high;
  }
  *from = low;
  *to = high;
}
#undef EC_ROUND
