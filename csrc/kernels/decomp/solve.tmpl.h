/* One item of triangular solutions and Cholesky decompositions. */

/* Flags: upper, unit, transposed. Operands: A, B. */
static ec_status EC_FN(triangular)(ec_dec *d) {
  ec_triangle t = {d->flag[0], d->flag[1], d->flag[2] ? EC_OP_TRANSPOSE : EC_OP_NONE};
  EC_FN(solve)(t, d->n, d->k, d->at[0], d->n, d->at[1], d->n);
  return EC_OK;
}

/* Replaces the lower triangle of A by L. Returns the order of the leading minor that is not
 * positive. */
static int32_t EC_FN(cholesky)(int64_t n, EC_T *a) {
  for (int64_t j = 0; j < n; j++) {
    EC_T *col = a + j * n;
    for (int64_t k = 0; k < j; k++)
      EC_FN(axpy)(n - j, -EC_FN(conj)(a[j + k * n]), a + j + k * n, col + j);
    double pivot = EC_FN(re)(col[j]);
    if (!(pivot > 0)) return (int32_t)(j + 1);
    pivot = sqrt(pivot);
    col[j] = pivot;
    for (int64_t i = j + 1; i < n; i++) col[i] /= pivot;
    for (int64_t i = 0; i < j; i++) col[i] = 0;
  }
  return 0;
}

/* Operands: A, transposed for the upper triangle, and info. */
static ec_status EC_FN(factor)(ec_dec *d) {
  EC_T *a = d->at[0];
  int32_t *info = d->at[1];
  *info = EC_FN(cholesky)(d->n, a);
  for (int64_t j = 0; *info && j < d->n; j++)
    for (int64_t i = 0; i < j; i++) a[i + j * d->n] = 0;
  ec_dec_info(d, *info);
  return EC_OK;
}

/* (L L^H)^-1 B, or (U^H U)^-1 B with flag 0; B is the identity with flag 1. */
static ec_status EC_FN(factored)(ec_dec *d) {
  bool upper = d->flag[0];
  ec_triangle first = {upper, false, upper ? EC_OP_ADJOINT : EC_OP_NONE};
  ec_triangle second = {upper, false, upper ? EC_OP_NONE : EC_OP_ADJOINT};
  if (d->flag[1]) EC_FN(identity)(d->n, d->n, d->at[1], d->n);
  EC_FN(solve)(first, d->n, d->k, d->at[0], d->n, d->at[1], d->n);
  EC_FN(solve)(second, d->n, d->k, d->at[0], d->n, d->at[1], d->n);
  return EC_OK;
}
