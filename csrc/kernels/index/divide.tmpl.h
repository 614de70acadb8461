/* Divides sums by counts to means; integers round down. Sums with a count of 0 are unchanged. */
static void EC_FN(divide)(int64_t n, char *sums, const int64_t *counts) {
  EC_T *x = (EC_T *)sums;
  for (int64_t i = 0; i < n; i++) {
    if (counts[i] == 0) continue;
#if EC_IS_FLOAT || EC_IS_COMPLEX
    x[i] = EC_STORE(ec_over(EC_LOAD(x[i]), (EC_C)counts[i]));
#else
    /* as in eager PyTorch, which divides by a tensor of the same dtype */
    EC_C count = (EC_C)counts[i];
    if (count == 0) continue;
#if EC_IS_SIGNED
    int64_t quotient = (int64_t)x[i] / count;
    bool down = (int64_t)x[i] % count != 0 && (x[i] < 0) != (count < 0);
    x[i] = (EC_T)(quotient - down);
#else
    x[i] = (EC_T)(x[i] / count);
#endif
#endif
  }
}
