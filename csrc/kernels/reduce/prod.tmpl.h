/* Products in the dtype's own accumulator: overflow to infinity is part of the result.
 * Integers multiply modulo 2^64. */
#if EC_IS_COMPLEX || EC_IS_FLOAT
#define EC_PROD EC_C
#else
#define EC_PROD uint64_t
#endif

static void EC_FN(prod_step)(ec_reduce_acc acc, const ec_reduce_block *b) {
  const EC_T *x = (const EC_T *)b->x;
  EC_PROD *a = acc.a;
  if (b->ks == 1 && b->ns != 1 && !b->plain) {
    for (int64_t r = 0; r < b->n; r++)
      for (int64_t i = 0; i < b->k; i++)
        a[i] = ec_times(a[i], (EC_PROD)EC_LOAD(x[i + r * b->ns]));
    return;
  }
  for (int64_t i = 0; i < b->k; i++) {
    const EC_T *row = x + i * b->ks;
    EC_PROD p = a[i];
    int64_t r = 0;
#if !EC_IS_COMPLEX && !EC_IS_FLOAT /* the order is irrelevant, so four products are independent */
    EC_PROD q[3] = {1, 1, 1};
    for (; !b->plain && r + 4 <= b->n; r += 4) {
      p *= (EC_PROD)EC_LOAD(row[r * b->ns]);
      for (int64_t j = 0; j < 3; j++) q[j] *= (EC_PROD)EC_LOAD(row[(r + 1 + j) * b->ns]);
    }
    p *= q[0] * q[1] * q[2];
#endif
    for (; r < b->n; r++) p = ec_times(p, (EC_PROD)EC_LOAD(row[r * b->ns]));
    a[i] = p;
  }
}

static void EC_FN(prod_init)(ec_reduce_acc acc, int64_t k) {
  EC_PROD *a = acc.a;
  for (int64_t i = 0; i < k; i++) a[i] = 1;
}

static void EC_FN(prod_finish)(ec_reduce_acc acc, int64_t k, const ec_reduce_dst *d) {
  EC_T *out = (EC_T *)d->out[0];
  const EC_PROD *a = acc.a;
  for (int64_t i = 0; i < k; i++) out[i * d->stride[0]] = EC_STORE((EC_C)a[i]);
}

#undef EC_PROD
