/* Adds elements to existing ones: integers wrap around, bools are or-ed. */
static void EC_FN(plus)(int64_t n, char *const *at, const int64_t *step, const void *params) {
  (void)params;
  if (step[0] == sizeof(EC_T) && step[1] == sizeof(EC_T)) {
    EC_T *to = (EC_T *)(void *)at[0];
    const EC_T *from = (const EC_T *)(const void *)at[1];
    for (int64_t i = 0; i < n; i++) to[i] = EC_PLUS(to[i], from[i]);
    return;
  }
  for (int64_t i = 0; i < n; i++) {
    EC_T *to = (EC_T *)(void *)(at[0] + i * step[0]);
    *to = EC_PLUS(*to, *(const EC_T *)(const void *)(at[1] + i * step[1]));
  }
}
