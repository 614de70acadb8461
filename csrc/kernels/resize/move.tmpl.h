/* Rows of elements copied from listed positions, included once per element size. */
static void EC_MOVE_NAME(move_row)(const int64_t *at, int64_t n, char *to, int64_t to_step,
                                   const char *from, int64_t from_step) {
  EC_MOVE *d = (EC_MOVE *)(void *)to;
  const EC_MOVE *s = (const EC_MOVE *)(const void *)from;
  if (to_step == 1 && from_step == 1) {
    for (int64_t x = 0; x < n; x++) d[x] = s[at[x]];
    return;
  }
  for (int64_t x = 0; x < n; x++) d[x * to_step] = s[at[x] * from_step];
}

/* Copies each element twice: `at` is 0, 0, 1, 1, and so on. */
static void EC_MOVE_NAME(double_row)(const int64_t *at, int64_t n, char *to, int64_t to_step,
                                     const char *from, int64_t from_step) {
  (void)at, (void)to_step, (void)from_step;
  EC_MOVE *d = (EC_MOVE *)(void *)to;
  const EC_MOVE *s = (const EC_MOVE *)(const void *)from;
  for (int64_t x = 0; x < n / 2; x++) d[2 * x] = d[2 * x + 1] = s[x];
}
#undef EC_MOVE
#undef EC_MOVE_NAME
