/* The Householder QR decomposition, its orthogonal factor, and products with that factor. */
#include <string.h>

#include "core/checked.h"
#include "kernels/decomp/blocks.h"

#define EC_TEMPLATE "kernels/decomp/qr.tmpl.h"
#include "kernels/decomp/foreach.h"
#undef EC_TEMPLATE

static ec_status add_qr(ec_dec *d, int out, int tau) {
  int64_t k = ec_min_i64(d->m, d->n);
  EC_TRY(ec_dec_add(d, (ec_dec_operand){0, out, 2, d->m, d->n, d->compute, 0}));
  return ec_dec_add(d, (ec_dec_operand){EC_DEC_NONE, tau, 1, k, 1, d->compute, 0});
}

ec_status ec_op_geqrf_a(ec_call *c) {
  ec_dec d;
  EC_TRY(ec_dec_init(c, 0, &d));
  EC_TRY(ec_dec_output(&d, 1, d.dtype, 2, d.m, d.n));
  EC_TRY(ec_dec_output(&d, 2, d.dtype, 1, ec_min_i64(d.m, d.n), 0));
  EC_TRY(add_qr(&d, 1, 2));
  return ec_dec_run(&d, EC_DEC(&d, reflections));
}

ec_status ec_op_linalg_qr_out(ec_call *c) {
  ec_dec d;
  const char *mode = ec_arg_string(c, 1);
  bool complete = mode && strcmp(mode, "complete") == 0, r_only = mode && strcmp(mode, "r") == 0;
  if (!mode || (!complete && !r_only && strcmp(mode, "reduced") != 0))
    return ec_call_fail(c, 1, "'%.20s', expected 'reduced', 'complete' or 'r'", mode ? mode : "");
  EC_TRY(ec_dec_init(c, 0, &d));
  d.k = complete ? d.m : ec_min_i64(d.m, d.n);
  d.flag[0] = r_only;
  EC_TRY(r_only ? ec_dec_output_none(&d, 2) : ec_dec_output(&d, 2, d.dtype, 2, d.m, d.k));
  EC_TRY(ec_dec_output(&d, 3, d.dtype, 2, d.k, d.n));
  EC_TRY(add_qr(&d, EC_DEC_NONE, EC_DEC_NONE));
  EC_TRY(ec_dec_add(&d, (ec_dec_operand){EC_DEC_NONE, r_only ? EC_DEC_NONE : 2, 2, d.m,
                                         r_only ? 0 : d.k, d.compute, 0}));
  EC_TRY(ec_dec_add(&d, (ec_dec_operand){EC_DEC_NONE, 3, 2, d.k, d.n, d.compute, 0}));
  return ec_dec_run(&d, EC_DEC(&d, factors));
}

/* Operands: reflections and tau of arguments 0 and 1, with the same batch. */
static ec_status add_reflections(ec_dec *d) {
  ec_call *c = d->c;
  const ec_tensor *self = ec_arg_tensor(c, 0), *tau = ec_arg_tensor(c, 1);
  EC_TRY(ec_dec_input(d, 1, 1));
  EC_TRY(ec_call_check_rank(c, 1, self->rank - 1u, self->rank - 1u));
  for (size_t i = 0; i + 2 < self->rank; i++)
    if (tau->sizes[i] != self->sizes[i])
      return ec_call_fail(c, 1, "a different batch from that of '%s'", c->op->args[0].name);
  d->k = tau->sizes[tau->rank - 1];
  if (d->k > ec_min_i64(d->m, d->n))
    return ec_call_fail(c, 1, "more numbers than rows or columns of '%s'", c->op->args[0].name);
  EC_TRY(ec_dec_add(d, (ec_dec_operand){0, EC_DEC_NONE, 2, d->m, d->n, d->compute, 0}));
  return ec_dec_add(d, (ec_dec_operand){1, EC_DEC_NONE, 1, d->k, 1, d->compute, 0});
}

ec_status ec_op_linalg_householder_product_out(ec_call *c) {
  ec_dec d;
  EC_TRY(ec_dec_init(c, 0, &d));
  if (d.m < d.n) return ec_call_fail(c, 0, "more columns than rows");
  EC_TRY(add_reflections(&d));
  EC_TRY(ec_dec_output(&d, 2, d.dtype, 2, d.m, d.n));
  EC_TRY(ec_dec_add(&d, (ec_dec_operand){EC_DEC_NONE, 2, 2, d.m, d.n, d.compute, 0}));
  return ec_dec_run(&d, EC_DEC(&d, orthogonal));
}

ec_status ec_op_ormqr_out(ec_call *c) {
  ec_dec d;
  EC_TRY(ec_dec_init(c, 0, &d));
  EC_TRY(add_reflections(&d));
  const ec_tensor *other = ec_arg_tensor(c, 2);
  d.flag[0] = ec_arg_bool(c, 3);
  d.flag[1] = ec_arg_bool(c, 4);
  EC_TRY(ec_call_check_rank(c, 2, ec_arg_tensor(c, 0)->rank, ec_arg_tensor(c, 0)->rank));
  EC_TRY(ec_dec_input(&d, 2, 2));
  d.count = other->sizes[other->rank - (d.flag[0] ? 1u : 2u)];
  int64_t rows = d.flag[0] ? d.m : d.count, cols = d.flag[0] ? d.count : d.m;
  EC_TRY(ec_dec_expect(&d, 2, 2, rows, cols));
  EC_TRY(ec_dec_output(&d, 5, d.dtype, 2, rows, cols));
  EC_TRY(ec_dec_add(&d, (ec_dec_operand){2, 5, 2, d.m, d.count, d.compute,
                                         d.flag[0] ? 0 : EC_TRANSPOSE}));
  return ec_dec_run(&d, EC_DEC(&d, multiplied));
}
