/* any: whether one element is not zero. NaN is not zero. Accumulators are bytes. */
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
    for (int64_t r = 0; r < b->n && !a[i]; r++) a[i] = (uint8_t)(EC_LOAD(row[r * b->ns]) != 0);
  }
}
