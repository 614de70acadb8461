/* exp(A) of one item by scaling, a Pade approximation of degree 13, and squaring. */

/* out = I f[0] + A2 f[1] + A4 f[2] + A6 f[3], with coefficients two elements apart. */
static void EC_FN(even)(int64_t n, const double *f, EC_T *const *powers, EC_T *out) {
  for (int64_t i = 0; i < n * n; i++)
    out[i] = f[2] * powers[0][i] + f[4] * powers[1][i] + f[6] * powers[2][i];
  for (int64_t i = 0; i < n; i++) out[i + i * n] += f[0];
}

/* Operands: A, replaced by its exponential, and pivots. */
static ec_status EC_FN(exponential)(ec_dec *d) {
  static const double f[] = {64764752532480000., 32382376266240000., 7771770303897600.,
                             1187353796428800.,  129060195264000.,   10559470521600.,
                             670442572800.,      33522128640.,       1323241920.,
                             40840800.,          960960.,            16380., 182., 1.};
  int64_t n = d->n, size = n * n;
  EC_T *a = d->at[0], *room = d->room;
  EC_T *p[3] = {room, room + size, room + 2 * size}, *u = room + 3 * size, *v = u + size;
  EC_T *t = v + size;
  double most = 0;
  for (int64_t j = 0; j < n; j++) {
    double sum = 0;
    for (int64_t i = 0; i < n; i++) sum += EC_FN(abs)(a[i + j * n]);
    if (!(sum <= most)) most = sum;
    if (!(sum <= DBL_MAX)) break;
  }
  int halvings = 0;
  if (!(most <= DBL_MAX)) most = NAN; /* and so is every element of the result */
  else if (most > 5.37) frexp(most / 5.37, &halvings);
  EC_FN(scale)(size, most == most ? ldexp(1, -halvings) : NAN, a);
  EC_FN(product)(n, n, n, a, n, a, n, p[0], n);
  EC_FN(product)(n, n, n, p[0], n, p[0], n, p[1], n);
  EC_FN(product)(n, n, n, p[0], n, p[1], n, p[2], n);
  for (int odd = 1; odd >= 0; odd--) { /* the odd and the even part of the numerator */
    const double high[] = {0, 0, f[8 + odd], 0, f[10 + odd], 0, f[12 + odd]};
    EC_FN(even)(n, high, p, t);
    EC_FN(product)(n, n, n, p[2], n, t, n, u, n);
    EC_FN(even)(n, f + odd, p, t);
    for (int64_t i = 0; i < size; i++) t[i] += u[i];
    if (odd) EC_FN(product)(n, n, n, a, n, t, n, v, n);
  }
  for (int64_t i = 0; i < size; i++) {
    a[i] = t[i] + v[i];
    t[i] -= v[i];
  }
  EC_FN(lu)(n, n, t, d->at[1]);
  EC_FN(lu_solve)(n, n, t, d->at[1], EC_OP_NONE, a);
  for (; halvings > 0; halvings--) {
    EC_FN(product)(n, n, n, a, n, a, n, u, n);
    memcpy(a, u, (size_t)size * sizeof *a);
  }
  return EC_OK;
}
