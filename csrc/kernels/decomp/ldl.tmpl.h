/* One item of A = L D L^T (L D L^H if Hermitian). D has 1 x 1 and 2 x 2 blocks, chosen by the
 * diagonal pivoting of Bunch and Kaufman; pivots as in LAPACK's sytrf with 'L'. */

static inline EC_T EC_FN(turn)(bool hermitian, EC_T x) { return hermitian ? EC_FN(conj)(x) : x; }

/* x D^-1 (or D^-1 x with the conjugate of b) for D with diagonal a, c and b below it. */
static inline void EC_FN(divide2)(bool hermitian, const EC_T *block, int64_t n, EC_T *x, EC_T *y,
                                  bool column) {
  EC_T a = block[0], b = block[1], c = block[n + 1], up = EC_FN(turn)(hermitian, b);
  EC_T p = c / b, q = a / up, t = 1 / (p * q - 1), x0 = *x, y0 = *y;
  *x = column ? (x0 * (c / up) - y0) * t / b : (x0 * p - y0) * t / up;
  *y = column ? (y0 * (a / b) - x0) * t / up : (y0 * q - x0) * t / b;
}

/* Swaps rows and columns i < j of the lower triangle of the trailing matrix from k on. */
static void EC_FN(swap_both)(bool hermitian, int64_t n, EC_T *a, int64_t i, int64_t j) {
  EC_FN(swap)(n - j - 1, a + j + 1 + i * n, 1, a + j + 1 + j * n, 1);
  EC_FN(swap)(j - i - 1, a + i + 1 + i * n, 1, a + j + (i + 1) * n, n);
  for (int64_t r = i + 1; r < j; r++) {
    a[r + i * n] = EC_FN(turn)(hermitian, a[r + i * n]);
    a[j + r * n] = EC_FN(turn)(hermitian, a[j + r * n]);
  }
  a[j + i * n] = EC_FN(turn)(hermitian, a[j + i * n]);
  EC_FN(swap)(1, a + i + i * n, 1, a + j + j * n, 1);
}

/* Returns the row to swap into the block at k, and sets `two` for a 2 x 2 block; -1: the column is
 * zero. */
static int64_t EC_FN(choose)(int64_t n, const EC_T *a, int64_t k, bool *two) {
  const double alpha = 0.6403882032022076; /* (1 + sqrt(17)) / 8 */
  int64_t most = k + 1;
  double here = EC_FN(abs1)(a[k + k * n]), column = 0, row = 0;
  *two = false;
  for (int64_t i = k + 1; i < n; i++)
    if (EC_FN(abs1)(a[i + k * n]) > column) column = EC_FN(abs1)(a[(most = i) + k * n]);
  if (!(fmax(here, column) > 0)) return -1;
  if (here >= alpha * column) return k;
  for (int64_t j = k; j < most; j++) row = fmax(row, EC_FN(abs1)(a[most + j * n]));
  for (int64_t i = most + 1; i < n; i++) row = fmax(row, EC_FN(abs1)(a[i + most * n]));
  if (here >= alpha * column * (column / row)) return k;
  *two = !(EC_FN(abs1)(a[most + most * n]) >= alpha * row);
  return most;
}

/* Subtracts X D^-1 X^H from the trailing matrix; X, the columns of the block, become L's. */
static void EC_FN(eliminate)(bool hermitian, int64_t n, EC_T *a, int64_t k, bool two) {
  EC_T *x = a + k * n, *y = x + n;
  for (int64_t j = k + 1 + two; j < n; j++) {
    EC_T f = x[j], g = two ? y[j] : 0;
    if (two) EC_FN(divide2)(hermitian, x + k, n, &f, &g, false);
    else f /= x[k];
    EC_T p = EC_FN(turn)(hermitian, f), q = EC_FN(turn)(hermitian, g);
    for (int64_t i = j; i < n; i++) a[i + j * n] -= two ? x[i] * p + y[i] * q : x[i] * p;
    if (hermitian) a[j + j * n] = EC_FN(re)(a[j + j * n]);
    x[j] = f; /* the rows below do not need it */
    if (two) y[j] = g;
  }
}

/* Operands: A, pivots, info. Flag: Hermitian. */
static ec_status EC_FN(factor)(ec_dec *d) {
  int64_t n = d->n;
  EC_T *a = d->at[0];
  int32_t *pivots = d->at[1], *info = d->at[2];
  bool hermitian = d->flag[0], two;
  for (int64_t j = 0; j < n; j++) {
    for (int64_t i = 0; i < j; i++) a[i + j * n] = 0;
    if (hermitian) a[j + j * n] = EC_FN(re)(a[j + j * n]);
  }
  for (int64_t k = 0; k < n; k += two ? 2 : 1) {
    int64_t p = EC_FN(choose)(n, a, k, &two), at = k + two;
    if (p < 0) {
      if (!*info) *info = (int32_t)(k + 1);
      pivots[k] = (int32_t)(k + 1);
      continue;
    }
    if (p != at) {
      EC_FN(swap_both)(hermitian, n, a, at, p);
      if (two) EC_FN(swap)(1, a + k + 1 + k * n, 1, a + p + k * n, 1);
    }
    EC_FN(eliminate)(hermitian, n, a, k, two);
    pivots[k] = (int32_t)(two ? -(p + 1) : p + 1);
    if (two) pivots[k + 1] = pivots[k];
  }
  ec_dec_info(d, *info);
  return EC_OK;
}

/* Solves for the rows of B that block k covers: by -L, then by the block. */
static void EC_FN(forward)(ec_dec *d, int64_t k, int64_t p, bool two) {
  int64_t n = d->n;
  const EC_T *a = d->at[0], *x = a + k * n;
  EC_T *b = d->at[3];
  for (int64_t j = 0; j < d->k; j++, b += n) {
    EC_FN(swap)(1, b + k + two, 1, b + p, 1);
    for (int64_t c = k; c <= k + two; c++)
      EC_FN(axpy)(n - k - 1 - two, -b[c], a + k + 1 + two + c * n, b + k + 1 + two);
    if (two) EC_FN(divide2)(d->flag[0], x + k, n, b + k, b + k + 1, true);
    else b[k] /= x[k];
  }
}

/* Operands: LD, pivots, none, B. Flag: Hermitian. */
static ec_status EC_FN(solve_factored)(ec_dec *d) {
  int64_t n = d->n;
  const EC_T *a = d->at[0];
  const int32_t *pivots = d->at[1];
  EC_TRY(check_pivots(d, pivots));
  for (int64_t k = 0; k < n; k += pivots[k] < 0 ? 2 : 1)
    EC_FN(forward)(d, k, pivots[k] < 0 ? -pivots[k] - 1 : pivots[k] - 1, pivots[k] < 0);
  for (int64_t k = n - 1; k >= 0; k--) {
    bool two = pivots[k] < 0;
    int64_t p = two ? -pivots[k] - 1 : pivots[k] - 1;
    EC_T *b = d->at[3];
    for (int64_t j = 0; j < d->k; j++, b += n) {
      for (int64_t c = k - two; c <= k; c++)
        for (int64_t i = k + 1; i < n; i++)
          b[c] -= EC_FN(turn)(d->flag[0], a[i + c * n]) * b[i];
      EC_FN(swap)(1, b + k, 1, b + p, 1);
    }
    k -= two;
  }
  return EC_OK;
}
