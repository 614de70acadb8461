/* One item of the Hermitian eigenvalue problem: reflections to a real tridiagonal matrix, then
 * implicit QL steps. */

/* A = Q T Q^H: T's diagonals go to d and e, Q's reflections stay below A's diagonal. */
static void EC_FN(tridiagonal)(int64_t n, EC_T *a, double *d, double *e, EC_T *tau, EC_T *p) {
  for (int64_t k = 0; k + 1 < n; k++) {
    int64_t r = n - k - 1;
    EC_T *v = a + k + 1 + k * n, *b = v + n;
    tau[k] = EC_FN(reflector)(r, v);
    e[k] = EC_FN(re)(v[0]);
    if (tau[k] == 0) continue;
    v[0] = 1;
    for (int64_t i = 0; i < r; i++) p[i] = 0;
    for (int64_t j = 0; j < r; j++) EC_FN(axpy)(r, tau[k] * v[j], b + j * n, p);
    EC_FN(axpy)(r, -0.5 * tau[k] * EC_FN(dot)(r, p, v), v, p);
    for (int64_t j = 0; j < r; j++) {
      EC_T x = EC_FN(conj)(p[j]), y = EC_FN(conj)(v[j]);
      for (int64_t i = 0; i < r; i++) b[i + j * n] -= v[i] * x + p[i] * y;
    }
  }
  for (int64_t i = 0; i < n; i++) d[i] = EC_FN(re)(a[i + i * n]);
  e[n - 1] = 0;
}

/* Applies a plane rotation to columns j and j + 1 of Z. */
static inline void EC_FN(rotate)(int64_t n, EC_T *z, double c, double s) {
  EC_T *x = z, *y = z + n;
  for (int64_t i = 0; i < n; i++) {
    EC_T h = y[i];
    y[i] = s * x[i] + c * h;
    x[i] = c * x[i] - s * h;
  }
}

/* Runs one implicit QL step on rows l to m; z may be NULL. */
static void EC_FN(ql_step)(int64_t n, int64_t l, int64_t m, double *d, double *e, EC_T *z) {
  double g = (d[l + 1] - d[l]) / (2 * e[l]), r = hypot(g, 1), s = 1, c = 1, p = 0;
  g = d[m] - d[l] + e[l] / (g + copysign(r, g));
  for (int64_t i = m - 1; i >= l; i--) {
    double f = s * e[i], b = c * e[i];
    e[i + 1] = r = hypot(f, g);
    if (r == 0) { /* the matrix splits: continue with the parts */
      d[i + 1] -= p;
      e[m] = 0;
      return;
    }
    s = f / r;
    c = g / r;
    g = d[i + 1] - p;
    r = (d[i] - g) * s + 2 * c * b;
    p = s * r;
    d[i + 1] = g + p;
    g = c * r - b;
    if (z) EC_FN(rotate)(n, z + i * n, c, s);
  }
  d[l] -= p;
  e[l] = g;
  e[m] = 0;
}

/* Computes eigenvalues into d, in ascending order, and updates Z's columns. Returns false if they
 * do not converge. */
static bool EC_FN(ql)(int64_t n, double *d, double *e, EC_T *z) {
  for (int64_t l = 0; l < n; l++)
    for (int steps = 0;; steps++) {
      int64_t m = l;
      while (m + 1 < n && !(fabs(e[m]) <= DBL_EPSILON * (fabs(d[m]) + fabs(d[m + 1])) / 2)) m++;
      if (m == l) break;
      if (steps == EIGEN_STEPS) return false;
      EC_FN(ql_step)(n, l, m, d, e, z);
    }
  for (int64_t i = 0; i < n; i++) {
    int64_t least = i;
    for (int64_t j = i + 1; j < n; j++)
      if (d[j] < d[least]) least = j;
    if (least == i) continue;
    double t = d[i];
    d[i] = d[least];
    d[least] = t;
    if (z) EC_FN(swap)(n, z + i * n, 1, z + least * n, 1);
  }
  return true;
}

/* Operands: A, eigenvalues, eigenvectors. Flags: upper, no vectors. */
static ec_status EC_FN(eigh)(ec_dec *d) {
  int64_t n = d->n;
  EC_T *a = d->at[0], *z = d->flag[1] ? NULL : d->at[2], *tau = d->room, *p = tau + n;
  double *values = d->at[1], *e = (double *)(p + n);
  if (n == 0) return EC_OK;
  EC_FN(mirror)(n, a, d->flag[0]);
  for (int64_t i = 0; i < n * n; i++)
    if (!(EC_FN(abs1)(a[i]) <= DBL_MAX)) { /* as eager: NaN everywhere */
      for (int64_t k = 0; k < n; k++) values[k] = NAN;
      for (int64_t k = 0; z && k < n * n; k++) z[k] = NAN;
      return EC_OK;
    }
  EC_FN(tridiagonal)(n, a, values, e, tau, p);
  if (z) {
    EC_FN(identity)(n, 1, z, n);
    for (int64_t j = 1; j < n; j++) z[j * n] = 0;
    EC_FN(q_of)(n - 1, n - 1, n - 1, a + 1, n, tau, z + 1 + n, n);
  }
  if (!EC_FN(ql)(n, values, e, z))
    return ec_fail(d->c->err, EC_INVALID_ARGUMENT, "the eigenvalues do not converge");
  return EC_OK;
}
