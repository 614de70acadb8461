/* Eigenvalues and eigenvectors of general matrices. They are computed as complex numbers. For a
 * real matrix they are then made real, or pairs of conjugates. */
#include "kernels/decomp/blocks.h"

enum { EIG_STEPS = 300 }; /* per eigenvalue: three are usual */

#define EC_TEMPLATE "kernels/decomp/eig.tmpl.h"
#include "core/dtype/complex128.h"
#undef EC_TEMPLATE

typedef double _Complex complex128;

/* Returns the index, from i on, of the eigenvalue nearest to the conjugate of the one at i. */
static int64_t conjugate_partner(int64_t n, const complex128 *values, int64_t i) {
  int64_t best = i;
  for (int64_t j = i + 1; j < n; j++)
    if (cabs(values[j] - conj(values[i])) < cabs(values[best] - conj(values[i]))) best = j;
  return best;
}

/* For a real matrix: makes each eigenvalue real, with a real vector, or places its conjugate after
 * it. */
static void make_pairs(int64_t n, complex128 *values, complex128 *vectors) {
  for (int64_t i = 0; i < n; i++) {
    int64_t j = conjugate_partner(n, values, i);
    complex128 *x = vectors + i * n;
    if (j == i) {
      values[i] = creal(values[i]);
      for (int64_t k = 0; k < n; k++) x[k] = creal(x[k]);
      double size = norm_complex128(n, x);
      if (size > 0) scale_complex128(n, 1 / size, x);
      continue;
    }
    swap_complex128(1, values + i + 1, 1, values + j, 1);
    swap_complex128(n, x + n, 1, vectors + j * n, 1);
    values[i] = (values[i] + conj(values[i + 1])) / 2;
    if (cimag(values[i]) < 0) { /* LAPACK puts the positive one first */
      values[i] = conj(values[i]);
      for (int64_t k = 0; k < n; k++) x[k] = conj(x[k]);
    }
    values[i + 1] = conj(values[i]);
    for (int64_t k = 0; k < n; k++) x[k + n] = conj(x[k]);
    i++;
  }
}

/* Operands: A, eigenvalues, eigenvectors. */
static ec_status run_eig(ec_dec *d) {
  int64_t n = d->n;
  complex128 *a = d->at[0], *values = d->at[1], *vectors = d->at[2], *room = d->room;
  complex128 *z = room, *turns = room + n * n;
  double most = 0;
  for (int64_t i = 0; i < n * n; i++) {
    if (!(abs1_complex128(a[i]) <= DBL_MAX))
      return ec_call_fail(d->c, 0, "not all elements are finite");
    most = fmax(most, abs1_complex128(a[i]));
  }
  for (int64_t i = 0; most > 0 && i < n * n; i++) a[i] /= most;
  hessenberg_complex128(n, a, z, turns);
  if (!schur_complex128(n, a, z, turns))
    return ec_call_fail(d->c, 0, "the eigenvalues do not converge");
  for (int64_t k = 0; k < n; k++) {
    values[k] = a[k + k * n] * most;
    vector_complex128(n, a, z, k, turns, vectors + k * n);
  }
  if (!d->is_complex) make_pairs(n, values, vectors);
  return EC_OK;
}

ec_status ec_op_linalg_eig_out(ec_call *c) {
  ec_dec d;
  EC_TRY(ec_dec_init(c, 0, &d));
  EC_TRY(ec_dec_square(&d, 0));
  ec_dtype to = d.real == EC_FLOAT32 ? EC_COMPLEX64 : EC_COMPLEX128;
  d.compute = EC_COMPLEX128;
  EC_TRY(ec_dec_output(&d, 1, to, 1, d.n, 0));
  EC_TRY(ec_dec_output(&d, 2, to, 2, d.n, d.n));
  EC_TRY(ec_dec_add(&d, (ec_dec_operand){0, EC_DEC_NONE, 2, d.n, d.n, d.compute, 0}));
  EC_TRY(ec_dec_add(&d, (ec_dec_operand){EC_DEC_NONE, 1, 1, d.n, 1, d.compute, 0}));
  EC_TRY(ec_dec_add(&d, (ec_dec_operand){EC_DEC_NONE, 2, 2, d.n, d.n, d.compute, 0}));
  EC_TRY(ec_dec_room(&d, d.n, d.n + 2, &d.room));
  return ec_dec_run(&d, run_eig);
}
