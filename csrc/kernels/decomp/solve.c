/* Triangular systems, the Cholesky decomposition and solutions from it. */
#include "kernels/decomp/blocks.h"

#define EC_TEMPLATE "kernels/decomp/solve.tmpl.h"
#include "kernels/decomp/foreach.h"
#undef EC_TEMPLATE

/* Operands: A, square, and the right-hand side in argument `b`, solved into `out`. From the right
 * both are transposed. */
static ec_status add_system(ec_dec *d, int a, int b, int out, bool left) {
  const ec_tensor *t = ec_arg_tensor(d->c, (size_t)b);
  EC_TRY(ec_dec_square(d, (size_t)a));
  EC_TRY(ec_dec_input(d, (size_t)b, 2));
  d->k = t->sizes[t->rank - (left ? 1u : 2u)];
  int64_t rows = left ? d->n : d->k, cols = left ? d->k : d->n;
  EC_TRY(ec_dec_expect(d, (size_t)b, 2, rows, cols));
  EC_TRY(ec_dec_output(d, (size_t)out, d->dtype, 2, rows, cols));
  int transposed = left ? 0 : EC_TRANSPOSE;
  EC_TRY(ec_dec_add(d, (ec_dec_operand){a, EC_DEC_NONE, 2, d->n, d->n, d->compute, transposed}));
  return ec_dec_add(d, (ec_dec_operand){b, out, 2, d->n, d->k, d->compute, transposed});
}

ec_status ec_op_linalg_solve_triangular_out(ec_call *c) {
  ec_dec d;
  bool left = ec_arg_bool(c, 3);
  EC_TRY(ec_dec_init(c, 0, &d));
  EC_TRY(add_system(&d, 0, 1, 5, left));
  d.flag[0] = ec_arg_bool(c, 2) == left; /* transposed, an upper triangle becomes a lower one */
  d.flag[1] = ec_arg_bool(c, 4);
  return ec_dec_run(&d, EC_DEC(&d, triangular));
}

ec_status ec_op_triangular_solve_X(ec_call *c) {
  ec_dec d;
  EC_TRY(ec_dec_init(c, 1, &d));
  EC_TRY(add_system(&d, 1, 0, 5, true));
  EC_TRY(ec_dec_output(&d, 6, d.dtype, 2, d.n, d.n));
  EC_TRY(ec_dec_add(&d, (ec_dec_operand){1, 6, 2, d.n, d.n, d.compute, 0}));
  d.flag[0] = ec_arg_bool(c, 2);
  d.flag[2] = ec_arg_bool(c, 3);
  d.flag[1] = ec_arg_bool(c, 4);
  return ec_dec_run(&d, EC_DEC(&d, triangular));
}

static ec_status run_cholesky(ec_call *c, int out, int info, bool check) {
  ec_dec d;
  EC_TRY(ec_dec_init(c, 0, &d));
  EC_TRY(ec_dec_square(&d, 0));
  EC_TRY(ec_dec_output(&d, (size_t)out, d.dtype, 2, d.n, d.n));
  if (info != EC_DEC_NONE) EC_TRY(ec_dec_output(&d, (size_t)info, EC_INT32, 0, 0, 0));
  int transposed = ec_arg_bool(c, 1) ? EC_TRANSPOSE : 0;
  EC_TRY(ec_dec_add(&d, (ec_dec_operand){0, out, 2, d.n, d.n, d.compute, transposed}));
  EC_TRY(ec_dec_add(&d, (ec_dec_operand){EC_DEC_NONE, info, 0, 1, 1, EC_INT32, 0}));
  EC_TRY(ec_dec_run(&d, EC_DEC(&d, factor)));
  return check ? ec_dec_check(&d, "the leading minor is not positive-definite") : EC_OK;
}

ec_status ec_op_cholesky_out(ec_call *c) { return run_cholesky(c, 2, EC_DEC_NONE, true); }

ec_status ec_op_linalg_cholesky_ex_L(ec_call *c) {
  return run_cholesky(c, 3, 4, ec_arg_bool(c, 2));
}

ec_status ec_op_cholesky_inverse_out(ec_call *c) {
  ec_dec d;
  EC_TRY(ec_dec_init(c, 0, &d));
  EC_TRY(add_system(&d, 0, 0, 2, true));
  d.flag[0] = ec_arg_bool(c, 1);
  d.flag[1] = true;
  return ec_dec_run(&d, EC_DEC(&d, factored));
}

ec_status ec_op_cholesky_solve_out(ec_call *c) {
  ec_dec d;
  EC_TRY(ec_dec_init(c, 1, &d));
  EC_TRY(add_system(&d, 1, 0, 3, true));
  d.flag[0] = ec_arg_bool(c, 2);
  return ec_dec_run(&d, EC_DEC(&d, factored));
}
