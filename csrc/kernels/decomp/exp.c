/* The exponential of square matrices. */
#include "kernels/decomp/blocks.h"

#define EC_TEMPLATE "kernels/decomp/exp.tmpl.h"
#include "kernels/decomp/foreach.h"
#undef EC_TEMPLATE

ec_status ec_op_linalg_matrix_exp_out(ec_call *c) {
  ec_dec d;
  EC_TRY(ec_dec_init(c, 0, &d));
  EC_TRY(ec_dec_square(&d, 0));
  EC_TRY(ec_dec_output(&d, 1, d.dtype, 2, d.n, d.n));
  EC_TRY(ec_dec_add(&d, (ec_dec_operand){0, 1, 2, d.n, d.n, d.compute, 0}));
  EC_TRY(ec_dec_add(&d, (ec_dec_operand){EC_DEC_NONE, EC_DEC_NONE, 1, d.n, 1, EC_INT32, 0}));
  EC_TRY(ec_dec_room(&d, d.n, 6 * d.n, &d.room));
  return ec_dec_run(&d, EC_DEC(&d, exponential));
}
