/* any: true if an element is not zero, NaN included. Accumulators are bytes. */
EC_CLONES static uint8_t EC_FN(any_row)(const EC_T *x, int64_t n) {
  /* as wide as the compared type, so that the loop does not narrow */
  typedef EC_REDUCE_MASK(EC_C) mask;
  enum { CHUNK = 256 }; /* processed completely, so that the loop vectorises */
  int64_t i = 0;
  mask found = 0;
  for (; i + CHUNK <= n && !found; i += CHUNK)
    for (int64_t j = 0; j < CHUNK; j++) found |= (mask)(EC_LOAD(x[i + j]) != 0);
  for (; i < n; i++) found |= (mask)(EC_LOAD(x[i]) != 0);
  return found != 0;
}

static void EC_FN(any_step)(ec_reduce_acc acc, const ec_reduce_block *b) {
  const EC_T *x = (const EC_T *)b->x;
  uint8_t *a = acc.a;
  if (b->ks == 1 && b->ns != 1 && !b->plain) {
    for (int64_t r = 0; r < b->n; r++)
      for (int64_t i = 0; i < b->k; i++) a[i] |= (uint8_t)(EC_LOAD(x[i + r * b->ns]) != 0);
    return;
  }
  for (int64_t i = 0; i < b->k; i++) {
    const EC_T *row = x + i * b->ks;
    if (b->ns == 1 && !b->plain) {
      a[i] |= EC_FN(any_row)(row, b->n);
      continue;
    }
    for (int64_t r = 0; r < b->n && !a[i]; r++) a[i] = (uint8_t)(EC_LOAD(row[r * b->ns]) != 0);
  }
}
