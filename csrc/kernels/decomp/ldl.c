/* L D L^T of symmetric and L D L^H of Hermitian matrices, and solutions of linear systems. */
#include <inttypes.h>

#include "kernels/decomp/blocks.h"

/* Checks pivots from a program: row numbers, negative ones in pairs. */
static ec_status check_pivots(ec_dec *d, const int32_t *pivots) {
  for (int64_t k = 0; k < d->n; k++) {
    int64_t p = pivots[k] < 0 ? -(int64_t)pivots[k] : pivots[k];
    bool paired = pivots[k] > 0 || (k + 1 < d->n && pivots[k + 1] == pivots[k]);
    if (p < 1 || p > d->n || !paired)
      return ec_call_fail(d->c, 1, "%" PRId32 " at %" PRId64 ", expected 1 to %" PRId64
                          " or a pair of negative ones", pivots[k], k, d->n);
    if (pivots[k] < 0) k++;
  }
  return EC_OK;
}

#define EC_TEMPLATE "kernels/decomp/ldl.tmpl.h"
#include "kernels/decomp/foreach.h"
#undef EC_TEMPLATE

/* Operands: matrix and pivots from arguments or for outputs; info. */
static ec_status add_ldl(ec_dec *d, int out, int pivots_in, int pivots_out, int info) {
  int64_t n = d->n;
  d->flag[0] = d->is_complex && ec_arg_bool(d->c, out == EC_DEC_NONE ? 3 : 1);
  EC_TRY(ec_dec_add(d, (ec_dec_operand){0, out, 2, n, n, d->compute, 0}));
  EC_TRY(ec_dec_add(d, (ec_dec_operand){pivots_in, pivots_out, 1, n, 1, EC_INT32, 0}));
  return ec_dec_add(d, (ec_dec_operand){EC_DEC_NONE, info, 0, 1, 1, EC_INT32, 0});
}

ec_status ec_op_linalg_ldl_factor_ex_out(ec_call *c) {
  ec_dec d;
  EC_TRY(ec_dec_init(c, 0, &d));
  EC_TRY(ec_dec_square(&d, 0));
  EC_TRY(ec_dec_output(&d, 3, d.dtype, 2, d.n, d.n));
  EC_TRY(ec_dec_output(&d, 4, EC_INT32, 1, d.n, 0));
  EC_TRY(ec_dec_output(&d, 5, EC_INT32, 0, 0, 0));
  EC_TRY(add_ldl(&d, 3, EC_DEC_NONE, 4, 5));
  EC_TRY(ec_dec_run(&d, EC_DEC(&d, factor)));
  return ec_arg_bool(c, 2) ? ec_dec_check(&d, "D is singular") : EC_OK;
}

ec_status ec_op_linalg_ldl_solve_out(ec_call *c) {
  ec_dec d;
  EC_TRY(ec_dec_init(c, 0, &d));
  EC_TRY(ec_dec_square(&d, 0));
  EC_TRY(ec_call_check_dtype(c, 1, EC_SET_CLASSIC_INT));
  EC_TRY(ec_dec_batch(&d, 1, 1));
  EC_TRY(ec_dec_expect(&d, 1, 1, d.n, 0));
  EC_TRY(ec_dec_input(&d, 2, 2));
  const ec_tensor *b = ec_arg_tensor(c, 2);
  d.k = b->sizes[b->rank - 1];
  EC_TRY(ec_dec_expect(&d, 2, 2, d.n, d.k));
  EC_TRY(ec_dec_output(&d, 4, d.dtype, 2, d.n, d.k));
  EC_TRY(add_ldl(&d, EC_DEC_NONE, 1, EC_DEC_NONE, EC_DEC_NONE));
  EC_TRY(ec_dec_add(&d, (ec_dec_operand){2, 4, 2, d.n, d.k, d.compute, 0}));
  return ec_dec_run(&d, EC_DEC(&d, solve_factored));
}
