/* frexp, ldexp, nextafter, round to decimals. */
#include "kernels/pointwise/template.h"

#define EC_TEMPLATE "kernels/pointwise/digits.tmpl.h"
#include "core/foreach/wide.h"
#undef EC_TEMPLATE
#define EC_TEMPLATE "kernels/pointwise/next.tmpl.h"
#include "core/foreach/floating.h"
#undef EC_TEMPLATE

static ec_elementwise_loops fraction_loops = {EC_ROWS_WIDE(fraction)};
static ec_elementwise_loops exponent_loops = {EC_ROWS_WIDE(exponent)};
static ec_elementwise_loops scale_loops = {EC_ROWS_WIDE(scale)};
static ec_elementwise_loops decimals_loops = {EC_ROWS_WIDE(to_decimals)};
static ec_elementwise_loops tens_loops = {EC_ROWS_WIDE(to_tens)};
static ec_elementwise_loops next_loops = {EC_ROWS_FLOATING(next)};

ec_status ec_op_frexp_tensor_out(ec_call *c) {
  const ec_tensor *self = ec_arg_tensor(c, 0);
  const ec_dtype dtype = ec_tensor_dtype(self);
  ec_elementwise p = {.inputs = 1, .logical = EC_INT32, .compute = EC_INT32};
  p.in[0] = (ec_operand){self, dtype, ec_compute_dtype(dtype)};
  EC_TRY(ec_call_check_same_dtype(c, 1, 0));
  EC_TRY(ec_call_check_dtype(c, 2, EC_BIT(EC_INT32)));
  EC_TRY(ec_elementwise_find(c, exponent_loops, dtype, &p.loop));
  EC_TRY(ec_elementwise_run(c, 2, &p));
  return ec_unary(c, 1, fraction_loops, 0, NULL);
}

ec_status ec_op_round_decimals_out(ec_call *c) {
  const int64_t decimals = ec_arg_int(c, 1);
  const double ten = pow(10, decimals < 0 ? -(double)decimals : (double)decimals);
  ec_params params = {{{ten, 0}}, false};
  return ec_unary(c, 2, decimals < 0 ? tens_loops : decimals_loops, 0, &params);
}

ec_status ec_op_nextafter_out(ec_call *c) {
  ec_dtype dtype;
  EC_TRY(ec_call_promote(c, 0, 1, &dtype));
  ec_elementwise p = {.inputs = 2, .logical = dtype, .compute = dtype};
  for (size_t k = 0; k < 2; k++) p.in[k] = (ec_operand){ec_arg_tensor(c, k), dtype, dtype};
  p.loop = next_loops[dtype];
  if (!p.loop) EC_TRY(ec_elementwise_find(c, next_loops, dtype, &p.loop));
  return ec_elementwise_run(c, 2, &p);
}

/* self * pow(2, other), where 2 is a 0-d tensor of self's dtype. */
static ec_status scale_by_power(ec_call *c) {
  const ec_tensor *self = ec_arg_tensor(c, 0), *other = ec_arg_tensor(c, 1);
  ec_number number;
  ec_tensor power;
  ec_result_type type = {0};
  ec_dtype dtype;
  ec_number_init(&number, ec_to_float(ec_tensor_dtype(self)), (ec_scalar){EC_KIND_INT, {.i = 2}});
  ec_result_add_tensor(&type, &number.tensor);
  ec_result_add_tensor(&type, other);
  EC_TRY(ec_result_dtype(c, &type, &dtype));
  EC_TRY(ec_tensor_init(&power, dtype, other->rank, other->sizes, NULL, c->err));
  power.capacity = ec_tensor_nbytes(&power);
  EC_TRY(ec_call_scratch(c, (size_t)power.numel, ec_dtype_size(dtype), &power.data));
  ec_value two = {.kind = EC_KIND_TENSOR, .as.tensor = &number.tensor};
  ec_value factor = {.kind = EC_KIND_TENSOR, .as.tensor = &power};
  ec_call step = *c;
  step.record = NULL;
  step.args = (ec_value *[]){&two, c->args[1], &factor};
  EC_TRY(ec_op_pow_tensor_tensor_out(&step));
  step.args = (ec_value *[]){c->args[0], &factor, c->args[2]};
  return ec_op_mul_out(&step);
}

/* Scales floating-point numbers by integers exactly, in self's dtype whatever other's sizes. */
ec_status ec_op_ldexp_out(ec_call *c) {
  const ec_tensor *self = ec_arg_tensor(c, 0), *other = ec_arg_tensor(c, 1);
  const ec_dtype dtype = ec_tensor_dtype(self), compute = ec_compute_dtype(dtype);
  ec_elementwise p = {.inputs = 2, .logical = dtype, .compute = compute};
  if (!ec_dtype_in(ec_tensor_dtype(other), EC_SET_INTB) || !ec_is_floating(dtype))
    return scale_by_power(c);
  p.in[0] = (ec_operand){self, dtype, compute};
  p.in[1] = (ec_operand){other, compute, compute};
  EC_TRY(ec_elementwise_find(c, scale_loops, dtype, &p.loop));
  return ec_elementwise_run(c, 2, &p);
}
