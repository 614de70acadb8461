/* The building blocks of decompositions for one compute type EC_T (double or double _Complex).
 * Matrices are column-major, `ld` elements between columns. */

static inline EC_T EC_FN(conj)(EC_T x) {
#if EC_IS_COMPLEX
  return conj(x);
#else
  return x;
#endif
}

static inline double EC_FN(re)(EC_T x) {
#if EC_IS_COMPLEX
  return creal(x);
#else
  return x;
#endif
}

static inline double EC_FN(im)(EC_T x) {
#if EC_IS_COMPLEX
  return cimag(x);
#else
  (void)x;
  return 0;
#endif
}

static inline double EC_FN(abs)(EC_T x) {
#if EC_IS_COMPLEX
  return cabs(x);
#else
  return fabs(x);
#endif
}

/* Returns the magnitude by which LAPACK compares complex pivots. */
static inline double EC_FN(abs1)(EC_T x) {
#if EC_IS_COMPLEX
  return fabs(creal(x)) + fabs(cimag(x));
#else
  return fabs(x);
#endif
}

/* Returns the sum of conj(x) * y. */
static inline EC_T EC_FN(dot)(int64_t n, const EC_T *x, const EC_T *y) {
  EC_T a = 0, b = 0;
  int64_t i = 0;
  for (; i + 2 <= n; i += 2) {
    a += EC_FN(conj)(x[i]) * y[i];
    b += EC_FN(conj)(x[i + 1]) * y[i + 1];
  }
  if (i < n) a += EC_FN(conj)(x[i]) * y[i];
  return a + b;
}

/* y += f * x */
static inline void EC_FN(axpy)(int64_t n, EC_T f, const EC_T *restrict x, EC_T *restrict y) {
  for (int64_t i = 0; i < n; i++) y[i] += f * x[i];
}

static inline void EC_FN(scale)(int64_t n, EC_T f, EC_T *x) {
  for (int64_t i = 0; i < n; i++) x[i] *= f;
}

static inline void EC_FN(swap)(int64_t n, EC_T *x, int64_t x_step, EC_T *y, int64_t y_step) {
  for (int64_t i = 0; i < n; i++, x += x_step, y += y_step) {
    EC_T t = *x;
    *x = *y;
    *y = t;
  }
}

/* Returns the Euclidean norm, without overflow. */
static inline double EC_FN(norm)(int64_t n, const EC_T *x) {
  double most = 0, sum = 0;
  for (int64_t i = 0; i < n; i++) {
    double a = EC_FN(abs1)(x[i]);
    if (a > most || a != a) most = a;
  }
  if (most == 0 || !(most <= DBL_MAX)) return most;
  for (int64_t i = 0; i < n; i++) {
    double a = EC_FN(abs)(x[i]) / most;
    sum += a * a;
  }
  return most * sqrt(sum);
}

/* C = A B with A m x k. */
static inline void EC_FN(product)(int64_t m, int64_t n, int64_t k, const EC_T *a, int64_t lda,
                                  const EC_T *b, int64_t ldb, EC_T *c, int64_t ldc) {
  for (int64_t j = 0; j < n; j++) {
    for (int64_t i = 0; i < m; i++) c[i + j * ldc] = 0;
    for (int64_t i = 0; i < k; i++) EC_FN(axpy)(m, b[i + j * ldb], a + i * lda, c + j * ldc);
  }
}

static inline void EC_FN(identity)(int64_t m, int64_t n, EC_T *a, int64_t ld) {
  for (int64_t j = 0; j < n; j++)
    for (int64_t i = 0; i < m; i++) a[i + j * ld] = i == j;
}

/* Fills the other triangle of a Hermitian matrix, ignoring imaginary parts on its diagonal. */
static inline void EC_FN(mirror)(int64_t n, EC_T *a, bool upper) {
  for (int64_t j = 0; j < n; j++) {
    for (int64_t i = 0; i < j; i++) {
      if (upper) a[j + i * n] = EC_FN(conj)(a[i + j * n]);
      else a[i + j * n] = EC_FN(conj)(a[j + i * n]);
    }
    a[j + j * n] = EC_FN(re)(a[j + j * n]);
  }
}

/* Solves op(A) X = B in place of B, A triangular. */
static inline void EC_FN(solve)(ec_triangle t, int64_t n, int64_t count, const EC_T *a, int64_t lda,
                                EC_T *b, int64_t ldb) {
  bool down = t.upper == (t.op != EC_OP_NONE);
  for (int64_t j = 0; j < count; j++) {
    EC_T *x = b + j * ldb;
    for (int64_t step = 0; step < n; step++) {
      int64_t i = down ? step : n - 1 - step, from = t.upper ? 0 : i + 1;
      int64_t rows = t.upper ? i : n - 1 - i;
      const EC_T *col = a + i * lda;
      EC_T sum = 0, pivot = t.op == EC_OP_ADJOINT ? EC_FN(conj)(col[i]) : col[i];
      if (t.op == EC_OP_ADJOINT) sum = EC_FN(dot)(rows, col + from, x + from);
      else if (t.op == EC_OP_TRANSPOSE)
        for (int64_t r = from; r < from + rows; r++) sum += col[r] * x[r];
      x[i] -= sum;
      if (!t.unit) x[i] /= pivot;
      if (t.op == EC_OP_NONE && x[i] != 0) EC_FN(axpy)(rows, -x[i], col + from, x + from);
    }
  }
}

/* LU with partial pivoting; pivots count from 1. Returns the first zero pivot (from 1) or 0. */
static inline int32_t EC_FN(lu)(int64_t m, int64_t n, EC_T *a, int32_t *pivots) {
  int32_t info = 0;
  for (int64_t k = 0; k < m && k < n; k++) {
    EC_T *col = a + k * m;
    int64_t p = k;
    for (int64_t i = k + 1; i < m; i++)
      if (EC_FN(abs1)(col[i]) > EC_FN(abs1)(col[p])) p = i;
    pivots[k] = (int32_t)(p + 1);
    if (p != k) EC_FN(swap)(n, a + k, m, a + p, m);
    if (col[k] == 0) {
      if (!info) info = (int32_t)(k + 1);
      continue;
    }
    for (int64_t i = k + 1; i < m; i++) col[i] /= col[k];
    for (int64_t j = k + 1; j < n; j++)
      if (a[k + j * m] != 0)
        EC_FN(axpy)(m - k - 1, -a[k + j * m], col + k + 1, a + j * m + k + 1);
  }
  return info;
}

/* Applies the row swaps of an LU decomposition to B, or reverts them. */
static inline void EC_FN(pivot_rows)(int64_t k, const int32_t *pivots, bool back, int64_t count,
                                     EC_T *b, int64_t ldb) {
  for (int64_t s = 0; s < k; s++) {
    int64_t i = back ? k - 1 - s : s, p = pivots[i] - 1;
    if (p != i) EC_FN(swap)(count, b + i, ldb, b + p, ldb);
  }
}

/* Computes A^-1 B from A's LU decomposition, or uses the transpose or adjoint of A. */
static inline void EC_FN(lu_solve)(int64_t n, int64_t count, const EC_T *lu, const int32_t *pivots,
                                   int op, EC_T *b) {
  ec_triangle lower = {.unit = true, .op = op}, upper = {.upper = true, .op = op};
  if (op == EC_OP_NONE) {
    EC_FN(pivot_rows)(n, pivots, false, count, b, n);
    EC_FN(solve)(lower, n, count, lu, n, b, n);
    EC_FN(solve)(upper, n, count, lu, n, b, n);
    return;
  }
  EC_FN(solve)(upper, n, count, lu, n, b, n);
  EC_FN(solve)(lower, n, count, lu, n, b, n);
  EC_FN(pivot_rows)(n, pivots, true, count, b, n);
}

/* The reflection H = I - tau v v^H with an adjoint that maps x to (beta, 0, ...), beta real. Leaves
 * beta, and v after its implicit 1, in x; as LAPACK's larfg. */
static inline EC_T EC_FN(reflector)(int64_t n, EC_T *x) {
  double rest = n > 1 ? EC_FN(norm)(n - 1, x + 1) : 0;
  if (n < 1 || (rest == 0 && EC_FN(im)(x[0]) == 0)) return 0;
  double size = hypot(EC_FN(abs)(x[0]), rest);
  double beta = EC_FN(re)(x[0]) < 0 ? size : -size; /* -0 is not negative there */
  EC_T tau = (beta - x[0]) / beta;
  EC_T by = x[0] - beta;
  for (int64_t i = 1; i < n; i++) x[i] /= by;
  x[0] = beta;
  return tau;
}

/* A -= tau v (v^H A) for `cols` columns of n rows; v[0] is an implicit 1. */
static inline void EC_FN(reflect)(int64_t n, int64_t cols, const EC_T *v, EC_T tau, EC_T *a,
                                  int64_t ld) {
  if (tau == 0 || n < 1) return;
  for (int64_t j = 0; j < cols; j++) {
    EC_T *x = a + j * ld;
    EC_T f = -tau * (x[0] + EC_FN(dot)(n - 1, v + 1, x + 1));
    x[0] += f;
    EC_FN(axpy)(n - 1, f, v + 1, x + 1);
  }
}

/* Householder QR: R in the upper triangle, reflections below. */
static inline void EC_FN(qr)(int64_t m, int64_t n, EC_T *a, int64_t ld, EC_T *tau) {
  for (int64_t k = 0; k < m && k < n; k++) {
    EC_T *x = a + k + k * ld;
    tau[k] = EC_FN(reflector)(m - k, x);
    EC_FN(reflect)(m - k, n - k - 1, x, EC_FN(conj)(tau[k]), x + ld, ld);
  }
}

/* Computes the first `cols` columns of H1 ... Hk; vector i starts at v[i + i * ld]. As LAPACK's
 * orgqr, column i takes its own reflection without a product: NaN in v stays below the diagonal. */
static inline void EC_FN(q_of)(int64_t m, int64_t cols, int64_t k, const EC_T *v, int64_t ld,
                               const EC_T *tau, EC_T *q, int64_t ldq) {
  EC_FN(identity)(m, cols, q, ldq);
  for (int64_t i = k - 1; i >= 0; i--) {
    const EC_T *x = v + i + i * ld;
    EC_T *column = q + i + i * ldq;
    EC_FN(reflect)(m - i, cols - i - 1, x, tau[i], column + ldq, ldq);
    if (i >= cols) continue;
    column[0] = 1 - tau[i];
    for (int64_t j = 1; j < m - i; j++) column[j] = -tau[i] * x[j];
  }
}
