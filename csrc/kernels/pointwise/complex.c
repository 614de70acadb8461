/* complex, polar, conjugates, angle. */
#include "kernels/pointwise/template.h"

#define EC_TEMPLATE "kernels/pointwise/complex.tmpl.h"
#include "core/foreach/intb.h"
#include "core/foreach/widec.h"
#undef EC_TEMPLATE

static ec_elementwise_loops angle_loops = {EC_ROWS_WIDE(angle), EC_ROWS_COMPLEX(angle)};
static ec_elementwise_loops conj_physical_loops = {EC_ROWS_INTB(conjugate), EC_ROWS_WIDE(conjugate),
                                                   EC_ROWS_COMPLEX(conjugate)};
static ec_elementwise_loops conj_loops = {EC_ROWS_COMPLEX(conjugate)};
static ec_elementwise_loops cartesian_loops = {EC_ROWS_WIDE(cartesian)};
static ec_elementwise_loops polar_loops = {EC_ROWS_WIDE(polar)};

ec_status ec_op_conj_physical_out(ec_call *c) {
  return ec_unary(c, 1, conj_physical_loops, 0, NULL);
}
ec_status ec_op_conj_copy_out(ec_call *c) { return ec_unary(c, 1, conj_loops, 0, NULL); }

ec_status ec_op_angle_out(ec_call *c) {
  return ec_unary(c, 1, angle_loops, EC_ELEMENTWISE_TO_FLOAT | EC_ELEMENTWISE_TO_REAL, NULL);
}

/* Combines two real tensors of one dtype (eager promotes nothing here) to complex numbers. */
static ec_status from_real(ec_call *c, ec_elementwise_loops loops) {
  const ec_dtype dtype = ec_tensor_dtype(ec_arg_tensor(c, 0));
  const ec_dtype result = dtype == EC_FLOAT64 ? EC_COMPLEX128 : EC_COMPLEX64;
  ec_elementwise p = {.inputs = 2, .logical = result, .compute = result};
  EC_TRY(ec_call_check_dtype(c, 0, EC_BIT(EC_FLOAT32) | EC_BIT(EC_FLOAT64)));
  EC_TRY(ec_call_check_same_dtype(c, 1, 0));
  EC_TRY(ec_call_check_dtype(c, 2, EC_BIT(result)));
  EC_TRY(ec_elementwise_find(c, loops, dtype, &p.loop));
  for (size_t k = 0; k < 2; k++) p.in[k] = (ec_operand){ec_arg_tensor(c, k), dtype, dtype};
  return ec_elementwise_run(c, 2, &p);
}

ec_status ec_op_complex_out(ec_call *c) { return from_real(c, cartesian_loops); }
ec_status ec_op_polar_out(ec_call *c) { return from_real(c, polar_loops); }
