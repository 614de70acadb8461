/* Copies n elements, or one n times. */
static void EC_MOVE_NAME(copy_chosen)(int64_t n, char *to, int64_t to_step, const char *from,
                                      int64_t from_step) {
  const int64_t item = (int64_t)sizeof(EC_MOVE);
  if (to_step == item && from_step == item) {
    memmove(to, from, (size_t)(n * item));
    return;
  }
  for (int64_t i = 0; i < n; i++)
    *(EC_MOVE *)(void *)(to + i * to_step) = *(const EC_MOVE *)(const void *)(from + i * from_step);
}

/* Selection between elements of one size (EC_MOVE), whatever their dtype: at[1] is a bool. */
EC_CLONES static void EC_MOVE_NAME(choose)(int64_t n, char *const *at, const int64_t *step,
                                 ec_params *params) {
  const int64_t item = (int64_t)sizeof(EC_MOVE);
  (void)params;
  const uint8_t *yes = (const uint8_t *)at[1];
  EC_MOVE *o = (EC_MOVE *)(void *)at[0];
  const EC_MOVE *a = (const EC_MOVE *)(const void *)at[2];
  const EC_MOVE *b = (const EC_MOVE *)(const void *)at[3];
  if (step[1] == 0) {
    const size_t k = *yes ? 2 : 3;
    EC_MOVE_NAME(copy_chosen)(n, at[0], step[0], at[k], step[k]);
  } else if (step[0] == item && step[1] == 1 && step[2] == item && step[3] == item) {
    for (int64_t i = 0; i < n; i++) {
      const EC_MOVE x = a[i], y = b[i];
      o[i] = yes[i] ? x : y;
    }
  } else if (step[0] == item && step[1] == 1 && step[2] == 0 && step[3] == item) {
    const EC_MOVE x = *a;
    for (int64_t i = 0; i < n; i++) {
      const EC_MOVE y = b[i];
      o[i] = yes[i] ? x : y;
    }
  } else if (step[0] == item && step[1] == 1 && step[2] == item && step[3] == 0) {
    const EC_MOVE y = *b;
    for (int64_t i = 0; i < n; i++) {
      const EC_MOVE x = a[i];
      o[i] = yes[i] ? x : y;
    }
  } else if (step[0] == item && step[1] == 1 && step[2] == 0 && step[3] == 0) {
    const EC_MOVE x = *a, y = *b;
    for (int64_t i = 0; i < n; i++) o[i] = yes[i] ? x : y;
  } else {
    for (int64_t i = 0; i < n; i++) {
      const EC_MOVE x = *(const EC_MOVE *)(const void *)(at[2] + i * step[2]);
      const EC_MOVE y = *(const EC_MOVE *)(const void *)(at[3] + i * step[3]);
      *(EC_MOVE *)(void *)(at[0] + i * step[0]) = at[1][i * step[1]] ? x : y;
    }
  }
}

#undef EC_MOVE
#undef EC_MOVE_NAME
