/* One item of the operators on LU decompositions. Operands: LU, pivots, then others. */

static ec_status EC_FN(factor)(ec_dec *d) {
  int32_t *info = d->at[2];
  *info = EC_FN(lu)(d->m, d->n, d->at[0], d->at[1]);
  ec_dec_info(d, *info);
  return EC_OK;
}

/* x / |x|. For real NaN it is 0, as in eager PyTorch. */
static inline EC_T EC_FN(sign)(EC_T x) {
#if EC_IS_COMPLEX
  const double size = EC_FN(abs)(x);
  return size != 0 ? x / size : x;
#else
  return (x > 0) - (x < 0);
#endif
}

/* Operands 2 and 3: the sign (the determinant itself with flag 0), and the logarithm of the
 * absolute value. */
static ec_status EC_FN(determinant)(ec_dec *d) {
  const EC_T *a = d->at[0];
  const int32_t *pivots = d->at[1];
  EC_T product = 1;
  double sum = 0;
  EC_FN(lu)(d->n, d->n, d->at[0], d->at[1]);
  for (int64_t i = 0; i < d->n; i++) {
    EC_T x = a[i + i * d->n];
    sum += log(EC_FN(abs)(x));
    if (pivots[i] != i + 1) product = -product;
    product *= d->flag[0] ? x : EC_FN(sign)(x);
  }
  *(EC_T *)d->at[2] = product;
  if (!d->flag[0]) *(double *)d->at[3] = sum;
  return EC_OK;
}

/* Operand 3: B, or the identity with flag 0; with flag 1, A's transpose multiplies X from the
 * left. */
static ec_status EC_FN(factor_solve)(ec_dec *d) {
  EC_FN(factor)(d);
  if (d->flag[0]) EC_FN(identity)(d->n, d->n, d->at[3], d->n);
  EC_FN(lu_solve)(d->n, d->k, d->at[0], d->at[1], d->flag[1] ? EC_OP_TRANSPOSE : EC_OP_NONE,
                  d->at[3]);
  return EC_OK;
}

/* Operand 2: B. Flags: left, adjoint. From the right the transposed system is solved. */
static ec_status EC_FN(solve_factored)(ec_dec *d) {
  bool left = d->flag[0], adjoint = d->flag[1], conjugate = !left && adjoint;
  EC_T *b = d->at[2];
  EC_TRY(check_pivots(d, d->at[1]));
  for (int64_t i = 0; conjugate && i < d->n * d->k; i++) b[i] = EC_FN(conj)(b[i]);
  int op = left ? adjoint ? EC_OP_ADJOINT : EC_OP_NONE : adjoint ? EC_OP_NONE : EC_OP_TRANSPOSE;
  EC_FN(lu_solve)(d->n, d->k, d->at[0], d->at[1], op, b);
  for (int64_t i = 0; conjugate && i < d->n * d->k; i++) b[i] = EC_FN(conj)(b[i]);
  return EC_OK;
}

/* Operands 2, 3, 4: P, L, U. Flags: no P, no L and U, compute LU first. */
static ec_status EC_FN(unpack)(ec_dec *d) {
  const EC_T *a = d->at[0];
  EC_T *p = d->at[2], *l = d->at[3], *u = d->at[4];
  int32_t *pivots = d->at[1];
  if (d->flag[2]) EC_FN(lu)(d->m, d->n, d->at[0], pivots);
  if (!d->flag[0]) {
    EC_TRY(check_pivots(d, pivots));
    EC_FN(identity)(d->m, d->m, p, d->m);
    for (int64_t i = 0; i < d->k; i++)
      EC_FN(swap)(d->m, p + i * d->m, 1, p + (pivots[i] - 1) * d->m, 1);
  }
  if (d->flag[1]) return EC_OK;
  for (int64_t j = 0; j < d->n; j++) {
    for (int64_t i = 0; i < d->k && i <= j; i++) u[i + j * d->k] = a[i + j * d->m];
    for (int64_t i = j + 1; j < d->k && i < d->m; i++) l[i + j * d->m] = a[i + j * d->m];
    if (j < d->k) l[j + j * d->m] = 1;
  }
  return EC_OK;
}
