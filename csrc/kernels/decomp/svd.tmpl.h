/* One item of singular values: B = Q R by reflections, then plane rotations that make the columns
 * of R orthogonal (one-sided Jacobi), accurate for small singular values, too. */

/* Makes columns x and y of W orthogonal, with the same rotation of V; x^H y is `both`. */
static void EC_FN(make_orthogonal)(int64_t n, EC_T *const *w, EC_T *const *v, double xx, double yy,
                                   EC_T both) {
  double size = EC_FN(abs)(both), zeta = (yy - xx) / (2 * size);
  double t = copysign(1 / (fabs(zeta) + hypot(1, zeta)), zeta), c = 1 / hypot(1, t), s = c * t;
  EC_T phase = EC_FN(conj)(both) / size;
  for (int k = 0; k < 2; k++) {
    EC_T *x = k ? v[0] : w[0], *y = k ? v[1] : w[1];
    for (int64_t i = 0; i < n; i++) {
      EC_T h = y[i] * phase;
      y[i] = s * x[i] + c * h;
      x[i] = c * x[i] - s * h;
    }
  }
}

/* Multiplies V by a V' for which W V' has orthogonal columns. */
static void EC_FN(jacobi)(int64_t n, EC_T *w, EC_T *v) {
  double least = DBL_EPSILON * sqrt((double)n);
  bool more = true;
  for (int sweep = 0; more && sweep < SVD_SWEEPS; sweep++) {
    more = false;
    for (int64_t i = 0; i + 1 < n; i++)
      for (int64_t j = i + 1; j < n; j++) {
        EC_T *x = w + i * n, *y = w + j * n, both = EC_FN(dot)(n, x, y);
        double xx = EC_FN(re)(EC_FN(dot)(n, x, x)), yy = EC_FN(re)(EC_FN(dot)(n, y, y));
        if (!(EC_FN(abs)(both) > least * sqrt(xx) * sqrt(yy))) continue;
        more = true;
        EC_FN(make_orthogonal)(n, (EC_T *[]){x, y}, (EC_T *[]){v + i * n, v + j * n}, xx, yy, both);
      }
  }
}

/* B = L S R^H, B p x q with p >= q; L has `cols` columns or is NULL, R is q x q. `room` has q * (q
 * + 2) elements. Returns false if B is not finite. */
static bool EC_FN(svd)(int64_t p, int64_t q, EC_T *b, double *s, EC_T *l, int64_t cols, EC_T *r,
                       EC_T *room) {
  EC_T *tau = room, *tau2 = room + q, *w = room + 2 * q;
  double most = 0;
  for (int64_t i = 0; i < p * q; i++) {
    if (!(EC_FN(abs1)(b[i]) <= DBL_MAX)) return false;
    most = fmax(most, EC_FN(abs1)(b[i]));
  }
  for (int64_t i = 0; most > 0 && i < p * q; i++) b[i] /= most;
  EC_FN(qr)(p, q, b, p, tau);
  for (int64_t j = 0; j < q; j++)
    for (int64_t i = 0; i < q; i++) w[i + j * q] = i <= j ? b[i + j * p] : 0;
  EC_FN(identity)(q, q, r, q);
  EC_FN(jacobi)(q, w, r);
  for (int64_t j = 0; j < q; j++) {
    s[j] = EC_FN(norm)(q, w + j * q) * most;
    for (int64_t i = j; i > 0 && s[i] > s[i - 1]; i--) {
      double t = s[i];
      s[i] = s[i - 1];
      s[i - 1] = t;
      EC_FN(swap)(q, w + i * q, 1, w + (i - 1) * q, 1);
      EC_FN(swap)(q, r + i * q, 1, r + (i - 1) * q, 1);
    }
  }
  if (!l) return true;
  /* W's directions, completed for singular values of 0: its QR decomposition up to signs */
  EC_FN(qr)(q, q, w, q, tau2);
  EC_FN(identity)(p, cols, l, p);
  EC_FN(q_of)(q, q, q, w, q, tau2, l, p);
  for (int64_t j = 0; j < q; j++)
    if (EC_FN(re)(w[j + j * q]) < 0) EC_FN(scale)(q, -1, l + j * p);
  for (int64_t i = q - 1; i >= 0; i--)
    EC_FN(reflect)(p - i, cols, b + i + i * p, tau[i], l + i, p);
  return true;
}

static ec_status EC_FN(not_finite)(ec_dec *d) {
  return ec_fail(d->c->err, EC_INVALID_ARGUMENT, "the matrix has elements that are not finite");
}

/* Operands: A (transposed if wide), S, R, L for the vectors; no L with flag 0. */
static ec_status EC_FN(singular)(ec_dec *d) {
  EC_T *l = d->flag[0] ? NULL : d->at[3], *r = d->at[2];
  if (!EC_FN(svd)(d->m, d->n, d->at[0], d->at[1], l, d->count, r, d->room))
    return EC_FN(not_finite)(d);
  for (int64_t i = 0; i < d->n * d->n; i++) r[i] = EC_FN(conj)(r[i]);
  return EC_OK;
}

/* Operands: A (transposed if wide), S, R, L, atol, rtol, the pseudoinverse.
 * Flags: Hermitian, without atol, without rtol. */
static ec_status EC_FN(pseudoinverse)(ec_dec *d) {
  double *s = d->at[1], epsilon = d->real == EC_FLOAT32 ? FLT_EPSILON : DBL_EPSILON;
  double atol = *(double *)d->at[4], rtol = *(double *)d->at[5];
  EC_T *a = d->at[0], *r = d->at[2], *l = d->at[3], *out = d->at[6];
  if (d->flag[0]) EC_FN(mirror)(d->n, a, false);
  if (!EC_FN(svd)(d->m, d->n, a, s, l, d->n, r, d->room)) return EC_FN(not_finite)(d);
  if (d->flag[2]) rtol = atol > 0 ? 0 : epsilon * (double)d->m;
  double least = d->n ? fmax(atol, rtol * s[0]) : 0;
  for (int64_t i = 0; i < d->n; i++) EC_FN(scale)(d->n, s[i] > least ? 1 / s[i] : 0, r + i * d->n);
  for (int64_t j = 0; j < d->m; j++)
    for (int64_t i = 0; i < d->n; i++)
      EC_FN(axpy)(d->n, EC_FN(conj)(l[j + i * d->m]), r + i * d->n, out + j * d->n);
  return EC_OK;
}
