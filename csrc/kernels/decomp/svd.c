/* Singular value decompositions and pseudoinverses. */
#include "kernels/decomp/blocks.h"

enum { SVD_SWEEPS = 40 }; /* eight are usual */

#define EC_TEMPLATE "kernels/decomp/svd.tmpl.h"
#include "kernels/decomp/foreach.h"
#undef EC_TEMPLATE

/* Makes d->m >= d->n. Returns true if A is transposed for that. */
static bool make_tall(ec_dec *d) {
  bool wide = d->m < d->n;
  int64_t m = d->m;
  if (wide) {
    d->m = d->n;
    d->n = m;
  }
  return wide;
}

/* Operand 0: A, with room for the transpose of its shape; 1: singular values. */
static ec_status add_svd(ec_dec *d, int s, bool wide) {
  int transposed = wide ? EC_TRANSPOSE_IN : 0;
  EC_TRY(ec_dec_add(d, (ec_dec_operand){0, EC_DEC_NONE, 2, d->m, d->n, d->compute, transposed}));
  EC_TRY(ec_dec_add(d, (ec_dec_operand){EC_DEC_NONE, s, 1, d->n, 1, EC_FLOAT64, 0}));
  return ec_dec_room(d, d->n, d->n + 2, &d->room);
}

ec_status ec_op_linalg_svd_U(ec_call *c) {
  ec_dec d;
  bool full = ec_arg_bool(c, 1), vectors = ec_arg_bool(c, 2);
  if (ec_arg_string(c, 3)) return ec_call_fail(c, 3, "given, but drivers exist only on GPUs");
  EC_TRY(ec_dec_init(c, 0, &d));
  int64_t m = d.m, n = d.n, k = m < n ? m : n;
  EC_TRY(vectors ? ec_dec_output(&d, 4, d.dtype, 2, m, full ? m : k) : ec_dec_output_none(&d, 4));
  EC_TRY(ec_dec_output(&d, 5, d.real, 1, k, 0));
  EC_TRY(vectors ? ec_dec_output(&d, 6, d.dtype, 2, full ? n : k, n) : ec_dec_output_none(&d, 6));
  bool wide = make_tall(&d);
  int u = vectors ? 4 : EC_DEC_NONE, v = vectors ? 6 : EC_DEC_NONE;
  d.flag[0] = !vectors;
  d.count = !vectors ? 0 : full ? d.m : d.n;
  EC_TRY(add_svd(&d, 5, wide));
  EC_TRY(ec_dec_add(&d, (ec_dec_operand){EC_DEC_NONE, wide ? u : v, 2, d.n, d.n, d.compute,
                                         wide ? 0 : EC_TRANSPOSE_OUT}));
  EC_TRY(ec_dec_add(&d, (ec_dec_operand){EC_DEC_NONE, wide ? v : u, 2, d.m, d.count, d.compute,
                                         wide ? EC_TRANSPOSE_OUT : 0}));
  return ec_dec_run(&d, EC_DEC(&d, singular));
}

/* Operands 4 and 5: the tolerances, of any real dtype; None is 0. */
static ec_status add_tolerances(ec_dec *d) {
  for (size_t i = 1; i < 3; i++) {
    bool is_wanted = !ec_arg_is_none(d->c, i);
    if (is_wanted) {
      EC_TRY(ec_call_check_dtype(d->c, i, EC_SET_REALB));
      EC_TRY(ec_dec_batch(d, i, 0));
    }
    d->flag[i] = !is_wanted;
    EC_TRY(ec_dec_add(d, (ec_dec_operand){is_wanted ? (int)i : EC_DEC_NONE, EC_DEC_NONE, 0, 1, 1,
                                          EC_FLOAT64, 0}));
  }
  return EC_OK;
}

ec_status ec_op_linalg_pinv_atol_rtol_tensor_out(ec_call *c) {
  ec_dec d;
  EC_TRY(ec_dec_init(c, 0, &d));
  d.flag[0] = ec_arg_bool(c, 3);
  if (d.flag[0]) EC_TRY(ec_dec_square(&d, 0));
  int64_t rows = d.n, cols = d.m;
  bool wide = make_tall(&d);
  EC_TRY(add_svd(&d, EC_DEC_NONE, wide));
  EC_TRY(ec_dec_add(&d, (ec_dec_operand){EC_DEC_NONE, EC_DEC_NONE, 2, d.n, d.n, d.compute, 0}));
  EC_TRY(ec_dec_add(&d, (ec_dec_operand){EC_DEC_NONE, EC_DEC_NONE, 2, d.m, d.n, d.compute, 0}));
  EC_TRY(add_tolerances(&d));
  EC_TRY(ec_dec_output(&d, 4, d.dtype, 2, rows, cols));
  EC_TRY(ec_dec_add(&d, (ec_dec_operand){EC_DEC_NONE, 4, 2, d.n, d.m, d.compute,
                                         wide ? EC_TRANSPOSE_OUT : 0}));
  return ec_dec_run(&d, EC_DEC(&d, pseudoinverse));
}
