/* eq, ne, lt, le, gt, ge: in the common dtype, with a bool result; logical_not: equality with 0. */
#include "kernels/pointwise/template.h"

#define EC_TEMPLATE "kernels/pointwise/compare.tmpl.h"
#include "core/foreach/intb.h"
#include "core/foreach/widec.h"
#undef EC_TEMPLATE

#define ORDERED(fn) EC_ROWS_INTB(fn), EC_ROWS_WIDE(fn)

static ec_elementwise_loops eq_loops = {ORDERED(eq), EC_ROWS_COMPLEX(eq)};
static ec_elementwise_loops ne_loops = {ORDERED(ne), EC_ROWS_COMPLEX(ne)};
static ec_elementwise_loops lt_loops = {ORDERED(lt)};
static ec_elementwise_loops le_loops = {ORDERED(le)};
static ec_elementwise_loops gt_loops = {ORDERED(gt)};
static ec_elementwise_loops ge_loops = {ORDERED(ge)};

static ec_status run_compare(ec_call *c, ec_elementwise_loops loops) {
  return ec_binary(c, 2, loops, EC_ELEMENTWISE_TO_BOOL, NULL);
}

ec_status ec_op_eq_tensor_out(ec_call *c) { return run_compare(c, eq_loops); }
ec_status ec_op_eq_scalar_out(ec_call *c) { return run_compare(c, eq_loops); }
ec_status ec_op_ne_tensor_out(ec_call *c) { return run_compare(c, ne_loops); }
ec_status ec_op_ne_scalar_out(ec_call *c) { return run_compare(c, ne_loops); }
ec_status ec_op_lt_tensor_out(ec_call *c) { return run_compare(c, lt_loops); }
ec_status ec_op_lt_scalar_out(ec_call *c) { return run_compare(c, lt_loops); }
ec_status ec_op_le_tensor_out(ec_call *c) { return run_compare(c, le_loops); }
ec_status ec_op_le_scalar_out(ec_call *c) { return run_compare(c, le_loops); }
ec_status ec_op_gt_tensor_out(ec_call *c) { return run_compare(c, gt_loops); }
ec_status ec_op_gt_scalar_out(ec_call *c) { return run_compare(c, gt_loops); }
ec_status ec_op_ge_tensor_out(ec_call *c) { return run_compare(c, ge_loops); }
ec_status ec_op_ge_scalar_out(ec_call *c) { return run_compare(c, ge_loops); }

ec_status ec_op_logical_not_out(ec_call *c) {
  const ec_tensor *self = ec_arg_tensor(c, 0);
  const ec_dtype dtype = ec_tensor_dtype(self), compute = ec_compute_dtype(dtype);
  ec_number zero;
  ec_number_init(&zero, dtype, (ec_scalar){.kind = EC_KIND_INT});
  ec_elementwise p = {.inputs = 2, .in = {{self, dtype, compute}, {&zero.tensor, dtype, compute}},
                      .logical = EC_BOOL, .compute = EC_BOOL};
  EC_TRY(ec_elementwise_find(c, eq_loops, dtype, &p.loop));
  return ec_elementwise_run(c, 1, &p);
}
