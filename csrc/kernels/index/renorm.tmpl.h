/* The norm of a row, rounded to the dtype, and its product with a number. */
#if EC_IS_COMPLEX
#define EC_MAGNITUDE(x) cabs((double complex)EC_LOAD(x))
#else
#define EC_MAGNITUDE(x) fabs((double)EC_LOAD(x))
#endif

static double EC_FN(norm)(int64_t n, const char *row, int64_t step, double p) {
  double sum = isinf(p) && p < 0 ? INFINITY : 0;
  for (int64_t i = 0; i < n; i++) {
    const double x = EC_MAGNITUDE(*(const EC_T *)(const void *)(row + i * step));
    if (isinf(p)) sum = x != x || (p > 0 ? x > sum : x < sum) ? x : sum;
    else sum += p == 0 ? x != 0 : p == 1 ? x : p == 2 ? x * x : pow(x, p);
  }
  if (p == 2) sum = sqrt(sum);
  else if (p != 0 && p != 1 && !isinf(p)) sum = pow(sum, 1 / p);
#if EC_IS_FLOAT
  return (double)EC_LOAD((EC_T)EC_STORE((EC_C)sum));
#else
  return sum;
#endif
}

static void EC_FN(scale)(int64_t n, char *row, int64_t step, double by) {
#if EC_IS_FLOAT
  const EC_C factor = EC_LOAD((EC_T)EC_STORE((EC_C)by)); /* in the dtype, as in eager PyTorch */
#else
  const EC_C factor = (EC_C)by;
#endif
  for (int64_t i = 0; i < n; i++) {
    EC_T *x = (EC_T *)(void *)(row + i * step);
    *x = (EC_T)EC_STORE(EC_LOAD(*x) * factor);
  }
}

#undef EC_MAGNITUDE
