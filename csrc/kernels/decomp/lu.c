/* LU decompositions with partial pivoting, and operators based on them: determinants, solutions of
 * linear equations, inverses. */
#include <inttypes.h>

#include "core/checked.h"
#include "kernels/decomp/blocks.h"

/* Checks pivots from a program before rows are swapped. */
static ec_status check_pivots(ec_dec *d, const int32_t *pivots) {
  for (int64_t i = 0; i < ec_min_i64(d->m, d->n); i++)
    if (pivots[i] < 1 || pivots[i] > d->m)
      return ec_fail(d->c->err, EC_INVALID_ARGUMENT,
                     "pivot %" PRId64 " is %" PRId32 ", expected 1 to %" PRId64, i, pivots[i],
                     d->m);
  return EC_OK;
}

#define EC_TEMPLATE "kernels/decomp/lu.tmpl.h"
#include "kernels/decomp/foreach.h"
#undef EC_TEMPLATE

/* Operands 0 and 1: A, replaced by LU, and pivots. With `transposed`, LU is that of A's
 * transpose. */
static ec_status add_lu(ec_dec *d, int a, int lu, int pivots, bool transposed) {
  int64_t k = ec_min_i64(d->m, d->n);
  if (lu != EC_DEC_NONE) EC_TRY(ec_dec_output(d, (size_t)lu, d->dtype, 2, d->m, d->n));
  if (pivots != EC_DEC_NONE) EC_TRY(ec_dec_output(d, (size_t)pivots, EC_INT32, 1, k, 0));
  EC_TRY(ec_dec_add(d, (ec_dec_operand){a, lu, 2, d->m, d->n, d->compute,
                                        transposed ? EC_TRANSPOSE_IN : 0}));
  return ec_dec_add(d, (ec_dec_operand){EC_DEC_NONE, pivots, 1, k, 1, EC_INT32, 0});
}

/* Operand 2: info. */
static ec_status add_info(ec_dec *d, int info) {
  EC_TRY(ec_dec_output(d, (size_t)info, EC_INT32, 0, 0, 0));
  return ec_dec_add(d, (ec_dec_operand){EC_DEC_NONE, info, 0, 1, 1, EC_INT32, 0});
}

/* True if eager's determinant decomposes the transpose, which is already column-major. */
static bool is_transposed(const ec_dec *d) {
  return !d->is_complex && ec_tensor_is_contiguous(ec_arg_tensor(d->c, 0));
}

static ec_status check_pivoting(ec_call *c, size_t i) {
  if (ec_arg_bool(c, i)) return EC_OK;
  return ec_call_fail(c, i, "false, but eager PyTorch has no LU without pivoting on CPUs");
}

ec_status ec_op_linalg_lu_factor_ex_out(ec_call *c) {
  ec_dec d;
  EC_TRY(ec_dec_init(c, 0, &d));
  EC_TRY(check_pivoting(c, 1));
  EC_TRY(add_lu(&d, 0, 3, 4, false));
  EC_TRY(add_info(&d, 5));
  EC_TRY(ec_dec_run(&d, EC_DEC(&d, factor)));
  return ec_arg_bool(c, 2) ? ec_dec_check(&d, "a zero on the diagonal of U") : EC_OK;
}

ec_status ec_op_linalg_det_result(ec_call *c) {
  ec_dec d;
  EC_TRY(ec_dec_init(c, 0, &d));
  EC_TRY(ec_dec_square(&d, 0));
  EC_TRY(add_lu(&d, 0, 2, 3, is_transposed(&d)));
  EC_TRY(ec_dec_output(&d, 1, d.dtype, 0, 0, 0));
  EC_TRY(ec_dec_add(&d, (ec_dec_operand){EC_DEC_NONE, 1, 0, 1, 1, d.compute, 0}));
  d.flag[0] = true;
  return ec_dec_run(&d, EC_DEC(&d, determinant));
}

ec_status ec_op_linalg_slogdet_sign(ec_call *c) {
  ec_dec d;
  EC_TRY(ec_dec_init(c, 0, &d));
  EC_TRY(ec_dec_square(&d, 0));
  EC_TRY(add_lu(&d, 0, 3, 4, is_transposed(&d)));
  EC_TRY(ec_dec_output(&d, 1, d.dtype, 0, 0, 0));
  EC_TRY(ec_dec_output(&d, 2, d.real, 0, 0, 0));
  EC_TRY(ec_dec_add(&d, (ec_dec_operand){EC_DEC_NONE, 1, 0, 1, 1, d.compute, 0}));
  EC_TRY(ec_dec_add(&d, (ec_dec_operand){EC_DEC_NONE, 2, 0, 1, 1, EC_FLOAT64, 0}));
  return ec_dec_run(&d, EC_DEC(&d, determinant));
}

ec_status ec_op_linalg_inv_ex_inverse(ec_call *c) {
  ec_dec d;
  EC_TRY(ec_dec_init(c, 0, &d));
  EC_TRY(ec_dec_square(&d, 0));
  d.k = d.n;
  d.flag[0] = true;
  EC_TRY(add_lu(&d, 0, EC_DEC_NONE, EC_DEC_NONE, false));
  EC_TRY(add_info(&d, 3));
  EC_TRY(ec_dec_output(&d, 2, d.dtype, 2, d.n, d.n));
  EC_TRY(ec_dec_add(&d, (ec_dec_operand){EC_DEC_NONE, 2, 2, d.n, d.n, d.compute, 0}));
  EC_TRY(ec_dec_run(&d, EC_DEC(&d, factor_solve)));
  return ec_arg_bool(c, 1) ? ec_dec_check(&d, "the matrix is singular, a zero on the diagonal of U")
                           : EC_OK;
}

/* True if B holds a vector for each matrix of A. */
static bool is_vector(const ec_tensor *a, const ec_tensor *b) {
  if (b->rank == 1) return true;
  if (b->rank + 1 != a->rank) return false;
  for (size_t i = 0; i < b->rank; i++)
    if (a->sizes[i] != b->sizes[i]) return false;
  return true;
}

/* Adds the right-hand side: argument `b`, solved into `out`, transposed if it is on the left. */
static ec_status add_rhs(ec_dec *d, size_t b, size_t out, size_t rank, bool left) {
  const ec_tensor *t = ec_arg_tensor(d->c, b);
  EC_TRY(ec_dec_input(d, b, rank));
  d->k = rank == 1 ? 1 : t->sizes[t->rank - (left ? 1u : 2u)];
  int64_t rows = left ? d->n : d->k, cols = left ? d->k : d->n;
  EC_TRY(ec_dec_expect(d, b, rank, rows, cols));
  EC_TRY(ec_dec_output(d, out, d->dtype, rank, rows, cols));
  return ec_dec_add(d, (ec_dec_operand){(int)b, (int)out, rank, d->n, d->k, d->compute,
                                        left ? 0 : EC_TRANSPOSE});
}

ec_status ec_op_linalg_solve_ex_result(ec_call *c) {
  ec_dec d;
  EC_TRY(ec_dec_init(c, 0, &d));
  EC_TRY(ec_dec_square(&d, 0));
  bool left = ec_arg_bool(c, 2);
  bool vector = is_vector(ec_arg_tensor(c, 0), ec_arg_tensor(c, 1));
  if (vector && !left) return ec_call_fail(c, 2, "false, but 'B' is a vector");
  EC_TRY(add_lu(&d, 0, 5, 6, false));
  EC_TRY(add_info(&d, 7));
  EC_TRY(add_rhs(&d, 1, 4, vector ? 1 : 2, left));
  d.flag[1] = !left;
  EC_TRY(ec_dec_run(&d, EC_DEC(&d, factor_solve)));
  return ec_arg_bool(c, 3) ? ec_dec_check(&d, "the matrix is singular, a zero on the diagonal of U")
                           : EC_OK;
}

/* Adds LU and pivots from the program. Pivots that are not read may have any shape and dtype, as in
 * eager. */
static ec_status add_factored(ec_dec *d, bool are_pivots_read) {
  ec_call *c = d->c;
  d->k = ec_min_i64(d->m, d->n);
  if (!are_pivots_read) {
    EC_TRY(ec_dec_add(d, (ec_dec_operand){0, EC_DEC_NONE, 2, d->m, d->n, d->compute, 0}));
    return ec_dec_add(d, (ec_dec_operand){EC_DEC_NONE, EC_DEC_NONE, 1, 0, 1, EC_INT32, 0});
  }
  EC_TRY(ec_call_check_dtype(c, 1, EC_BIT(EC_INT32)));
  EC_TRY(ec_dec_batch(d, 1, 1));
  EC_TRY(ec_dec_expect(d, 1, 1, d->k, 0));
  EC_TRY(ec_dec_add(d, (ec_dec_operand){0, EC_DEC_NONE, 2, d->m, d->n, d->compute, 0}));
  return ec_dec_add(d, (ec_dec_operand){1, EC_DEC_NONE, 1, d->k, 1, EC_INT32, 0});
}

ec_status ec_op_linalg_lu_solve_out(ec_call *c) {
  ec_dec d;
  EC_TRY(ec_dec_init(c, 0, &d));
  EC_TRY(ec_dec_square(&d, 0));
  EC_TRY(add_factored(&d, true));
  d.flag[0] = ec_arg_bool(c, 3);
  d.flag[1] = ec_arg_bool(c, 4);
  EC_TRY(add_rhs(&d, 2, 5, 2, d.flag[0]));
  return ec_dec_run(&d, EC_DEC(&d, solve_factored));
}

/* Adds operands 2, 3, 4 from argument `p` on: P, L and U. */
static ec_status add_unpacked(ec_dec *d, size_t p, bool pivots, bool data) {
  int64_t m = d->m, n = d->n, k = d->k = ec_min_i64(m, n);
  const int64_t sizes[3][2] = {{m, m}, {m, k}, {k, n}};
  for (size_t i = 0; i < 3; i++) {
    bool wanted = i ? data : pivots;
    int out = wanted ? (int)(p + i) : EC_DEC_NONE;
    EC_TRY(wanted ? ec_dec_output(d, p + i, d->dtype, 2, sizes[i][0], sizes[i][1])
                  : ec_dec_output_none(d, p + i));
    EC_TRY(ec_dec_add(d, (ec_dec_operand){EC_DEC_NONE, out, 2, wanted ? sizes[i][0] : 0,
                                          sizes[i][1], d->compute, 0}));
  }
  d->flag[0] = !pivots;
  d->flag[1] = !data;
  return ec_dec_run(d, EC_DEC(d, unpack));
}

ec_status ec_op_linalg_lu_out(ec_call *c) {
  ec_dec d;
  EC_TRY(ec_dec_init(c, 0, &d));
  EC_TRY(check_pivoting(c, 1));
  EC_TRY(add_lu(&d, 0, EC_DEC_NONE, EC_DEC_NONE, false));
  d.flag[2] = true;
  return add_unpacked(&d, 2, true, true);
}

ec_status ec_op_lu_unpack_out(ec_call *c) {
  ec_dec d;
  EC_TRY(ec_dec_init(c, 0, &d));
  const bool pivots = ec_arg_bool(c, 3);
  EC_TRY(add_factored(&d, pivots));
  return add_unpacked(&d, 4, pivots, ec_arg_bool(c, 2));
}
