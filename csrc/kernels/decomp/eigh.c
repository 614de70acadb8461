/* Eigenvalues and eigenvectors of Hermitian matrices. */
#include <ctype.h>

#include "kernels/decomp/blocks.h"

enum { EIGEN_STEPS = 60 }; /* per eigenvalue: two or three are usual */

#define EC_TEMPLATE "kernels/decomp/eigh.tmpl.h"
#include "kernels/decomp/foreach.h"
#undef EC_TEMPLATE

ec_status ec_op_linalg_eigh_eigenvalues(ec_call *c) {
  ec_dec d;
  const char *uplo = ec_arg_string(c, 1);
  int letter = uplo && uplo[0] && !uplo[1] ? toupper((unsigned char)uplo[0]) : 0;
  if (letter != 'L' && letter != 'U')
    return ec_call_fail(c, 1, "'%.20s', expected 'L' or 'U'", uplo ? uplo : "");
  EC_TRY(ec_dec_init(c, 0, &d));
  EC_TRY(ec_dec_square(&d, 0));
  d.flag[0] = letter == 'U';
  d.flag[1] = !ec_arg_bool(c, 2);
  EC_TRY(ec_dec_output(&d, 3, d.real, 1, d.n, 0));
  EC_TRY(d.flag[1] ? ec_dec_output_none(&d, 4) : ec_dec_output(&d, 4, d.dtype, 2, d.n, d.n));
  EC_TRY(ec_dec_add(&d, (ec_dec_operand){0, EC_DEC_NONE, 2, d.n, d.n, d.compute, 0}));
  EC_TRY(ec_dec_add(&d, (ec_dec_operand){EC_DEC_NONE, 3, 1, d.n, 1, EC_FLOAT64, 0}));
  if (!d.flag[1])
    EC_TRY(ec_dec_add(&d, (ec_dec_operand){EC_DEC_NONE, 4, 2, d.n, d.n, d.compute, 0}));
  EC_TRY(ec_dec_room(&d, d.n, 3, &d.room));
  return ec_dec_run(&d, EC_DEC(&d, eigh));
}
