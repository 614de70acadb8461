/* One item of QR decompositions and products with their reflections. */

/* Operands: A, tau. */
static ec_status EC_FN(reflections)(ec_dec *d) {
  EC_FN(qr)(d->m, d->n, d->at[0], d->m, d->at[1]);
  return EC_OK;
}

/* Operands: A, tau, Q with d->k columns, R with as many rows; no Q with flag 0. */
static ec_status EC_FN(factors)(ec_dec *d) {
  const EC_T *a = d->at[0];
  EC_T *r = d->at[3];
  int64_t least = d->m < d->n ? d->m : d->n;
  EC_FN(qr)(d->m, d->n, d->at[0], d->m, d->at[1]);
  if (!d->flag[0]) EC_FN(q_of)(d->m, d->k, least, a, d->m, d->at[1], d->at[2], d->m);
  for (int64_t j = 0; j < d->n; j++)
    for (int64_t i = 0; i <= j && i < least; i++) r[i + j * d->k] = a[i + j * d->m];
  return EC_OK;
}

/* Operands: reflections, tau, Q. */
static ec_status EC_FN(orthogonal)(ec_dec *d) {
  EC_FN(q_of)(d->m, d->n, d->k, d->at[0], d->m, d->at[1], d->at[2], d->m);
  return EC_OK;
}

/* Operands: reflections (k of them, m rows), tau, C. C is transposed if Q multiplies from the
 * right, because the transpose of C Q is that of Q times that of C. Flags: left, adjoint. */
static ec_status EC_FN(multiplied)(ec_dec *d) {
  EC_T *v = d->at[0];
  const EC_T *tau = d->at[1];
  bool left = d->flag[0], adjoint = d->flag[1];
  for (int64_t i = 0; !left && i < d->m * d->n; i++) v[i] = EC_FN(conj)(v[i]);
  for (int64_t s = 0; s < d->k; s++) {
    int64_t i = left == adjoint ? s : d->k - 1 - s;
    EC_FN(reflect)(d->m - i, d->count, v + i + i * d->m,
                   adjoint ? EC_FN(conj)(tau[i]) : tau[i], (EC_T *)d->at[2] + i, d->m);
  }
  return EC_OK;
}
