/* eq, ne, lt, le, gt, ge: in the common dtype, with a bool result; logical_not: what equals 0. */
#include "kernels/pointwise/template.h"

#define EC_TEMPLATE "kernels/pointwise/compare.tmpl.h"
#include "core/foreach/intb.h"
#include "core/foreach/widec.h"
#undef EC_TEMPLATE

#define ORDERED(fn) EC_ROWS_INTB(fn), EC_ROWS_WIDE(fn)

static ec_point_loops eq_loops = {ORDERED(eq), EC_ROWS_COMPLEX(eq)};
static ec_point_loops ne_loops = {ORDERED(ne), EC_ROWS_COMPLEX(ne)};
static ec_point_loops lt_loops = {ORDERED(lt)};
static ec_point_loops le_loops = {ORDERED(le)};
static ec_point_loops gt_loops = {ORDERED(gt)};
static ec_point_loops ge_loops = {ORDERED(ge)};

static ec_status compare(ec_call *c, ec_point_loops loops) {
  return ec_binary(c, 2, loops, EC_POINT_TO_BOOL, NULL);
}

ec_status ec_op_eq_tensor_out(ec_call *c) { return compare(c, eq_loops); }
ec_status ec_op_eq_scalar_out(ec_call *c) { return compare(c, eq_loops); }
ec_status ec_op_ne_tensor_out(ec_call *c) { return compare(c, ne_loops); }
ec_status ec_op_ne_scalar_out(ec_call *c) { return compare(c, ne_loops); }
ec_status ec_op_lt_tensor_out(ec_call *c) { return compare(c, lt_loops); }
ec_status ec_op_lt_scalar_out(ec_call *c) { return compare(c, lt_loops); }
ec_status ec_op_le_tensor_out(ec_call *c) { return compare(c, le_loops); }
ec_status ec_op_le_scalar_out(ec_call *c) { return compare(c, le_loops); }
ec_status ec_op_gt_tensor_out(ec_call *c) { return compare(c, gt_loops); }
ec_status ec_op_gt_scalar_out(ec_call *c) { return compare(c, gt_loops); }
ec_status ec_op_ge_tensor_out(ec_call *c) { return compare(c, ge_loops); }
ec_status ec_op_ge_scalar_out(ec_call *c) { return compare(c, ge_loops); }

ec_status ec_op_logical_not_out(ec_call *c) {
  const ec_tensor *self = ec_arg_tensor(c, 0);
  const ec_dtype dtype = ec_tensor_dtype(self), work = ec_work_dtype(dtype);
  ec_number zero;
  ec_number_init(&zero, dtype, (ec_scalar){.kind = EC_KIND_INT});
  ec_point p = {.inputs = 2, .in = {{self, dtype, work}, {&zero.tensor, dtype, work}},
                .logical = EC_BOOL, .work = EC_BOOL};
  EC_TRY(ec_point_find(c, eq_loops, dtype, &p.loop));
  return ec_point_run(c, 1, &p);
}
