/* sums[i] += x[i] * y[i] * z[i] of one dtype; EC_R is the accumulator type (foreach_gemm.h). */
static void EC_FN(multiply_add)(int64_t n, char *const *at, const int64_t *step,
                                const void *params) {
  (void)params;
  char *sum = at[0];
  const char *x = at[1], *y = at[2], *z = at[3];
  for (int64_t i = 0; i < n; i++) {
    EC_R a = (EC_R)EC_LOAD(*(const EC_T *)x), b = (EC_R)EC_LOAD(*(const EC_T *)y);
    EC_R c = (EC_R)EC_LOAD(*(const EC_T *)z);
    *(EC_R *)sum += ec_times(ec_times(a, b), c);
    sum += step[0];
    x += step[1];
    y += step[2];
    z += step[3];
  }
}
