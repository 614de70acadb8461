/* Eigenvalues and eigenvectors of one general matrix, in complex numbers: reflections to Hessenberg
 * form, shifted QR steps with plane rotations to a triangular form, back substitution. */

/* A = Q H Q^H with H zero below its first subdiagonal, in place of A; Q goes to z. */
static void EC_FN(hessenberg)(int64_t n, EC_T *a, EC_T *z, EC_T *tau) {
  EC_FN(identity)(n, n, z, n);
  for (int64_t k = 0; k + 2 < n; k++) {
    int64_t r = n - k - 1;
    EC_T *v = a + k + 1 + k * n;
    tau[k] = EC_FN(reflector)(r, v);
    EC_FN(reflect)(r, r, v, conj(tau[k]), v + n, n);
    for (int64_t i = 0; i < n; i++) {
      EC_T *row = a + i + (k + 1) * n, sum = row[0];
      for (int64_t j = 1; j < r; j++) sum += row[j * n] * v[j];
      sum *= tau[k];
      row[0] -= sum;
      for (int64_t j = 1; j < r; j++) row[j * n] -= sum * conj(v[j]);
    }
  }
  if (n > 2) EC_FN(q_of)(n - 1, n - 1, n - 2, a + 1, n, tau, z + 1 + n, n);
  for (int64_t j = 0; j + 2 < n; j++)
    for (int64_t i = j + 2; i < n; i++) a[i + j * n] = 0;
}

/* Returns the eigenvalue of the last two rows up to `m` that is nearer to the last element. */
static EC_T EC_FN(shift)(int64_t n, const EC_T *a, int64_t m, int step) {
  const EC_T *d = a + m + m * n;
  if (step % 10 == 9) return *d + cabs(d[-n]); /* breaks cycles */
  EC_T half = (d[-1 - n] - *d) / 2, product = d[-n] * d[-1];
  EC_T root = csqrt(half * half + product);
  EC_T by = cabs(half + root) > cabs(half - root) ? half + root : half - root;
  return by == 0 ? *d : *d - product / by;
}

/* Runs one QR step on rows l to m of H and updates Z's columns. `turns` holds 2 * n numbers. */
static void EC_FN(qr_step)(int64_t n, EC_T *a, EC_T *z, int64_t l, int64_t m, EC_T by,
                           EC_T *turns) {
  for (int64_t i = l; i <= m; i++) a[i + i * n] -= by;
  for (int64_t k = l; k < m; k++) {
    EC_T x = a[k + k * n], y = a[k + 1 + k * n];
    double size = hypot(cabs(x), cabs(y));
    EC_T c = turns[2 * k] = size ? x / size : 1, s = turns[2 * k + 1] = size ? y / size : 0;
    for (int64_t j = k; j < n; j++) {
      EC_T *p = a + k + j * n, h = p[0];
      p[0] = conj(c) * h + conj(s) * p[1];
      p[1] = c * p[1] - s * h;
    }
    a[k + 1 + k * n] = 0;
  }
  for (int64_t k = l; k < m; k++)
    for (int part = 0; part < 2; part++) {
      EC_T *x = (part ? z : a) + k * n, *y = x + n, c = turns[2 * k], s = turns[2 * k + 1];
      for (int64_t i = 0; i < (part ? n : k + 2); i++) {
        EC_T h = x[i];
        x[i] = c * h + s * y[i];
        y[i] = conj(c) * y[i] - conj(s) * h;
      }
    }
  for (int64_t i = l; i <= m; i++) a[i + i * n] += by;
}

/* H = Z T Z^H with T triangular in place of H. Returns false if it does not converge. */
static bool EC_FN(schur)(int64_t n, EC_T *a, EC_T *z, EC_T *turns) {
  int step = 0;
  for (int64_t m = n - 1; m > 0;) {
    int64_t l = m;
    for (; l > 0; l--) {
      double near = cabs(a[l + l * n]) + cabs(a[l - 1 + (l - 1) * n]);
      if (!(cabs(a[l + (l - 1) * n]) > DBL_EPSILON * (near > 0 ? near : DBL_MIN))) break;
    }
    if (l > 0) a[l + (l - 1) * n] = 0;
    if (l == m) {
      m--;
      step = 0;
      continue;
    }
    if (step == EIG_STEPS) return false;
    EC_FN(qr_step)(n, a, z, l, m, EC_FN(shift)(n, a, m, step++), turns);
  }
  return true;
}

/* Computes the eigenvector of T's element k, times Z, with length 1 and a real largest element. */
static void EC_FN(vector)(int64_t n, const EC_T *t, const EC_T *z, int64_t k, EC_T *x, EC_T *out) {
  double least = DBL_EPSILON * fmax(EC_FN(norm)(k + 1, t + k * n), DBL_MIN / DBL_EPSILON);
  for (int64_t i = 0; i < k; i++) x[i] = -t[i + k * n];
  x[k] = 1;
  for (int64_t i = k - 1; i >= 0; i--) {
    EC_T by = t[i + i * n] - t[k + k * n];
    x[i] /= cabs(by) < least ? least : by;
    if (cabs(x[i]) > 1e100) EC_FN(scale)(k + 1, 1 / cabs(x[i]), x);
    EC_FN(axpy)(i, -x[i], t + i * n, x);
  }
  EC_FN(product)(n, 1, k + 1, z, n, x, n, out, n);
  double size = EC_FN(norm)(n, out);
  int64_t most = 0;
  for (int64_t i = 1; i < n; i++)
    if (cabs(out[i]) > cabs(out[most])) most = i;
  if (size > 0) EC_FN(scale)(n, conj(out[most]) / cabs(out[most]) / size, out);
  if (size > 0) out[most] = creal(out[most]);
}
