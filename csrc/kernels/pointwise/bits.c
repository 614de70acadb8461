/* Bitwise operators, shifts, and the logical operators. The latter test operands of any dtype for
 * non-zero and then use bool's bitwise loops. */
#include "kernels/pointwise/template.h"

#define EC_TEMPLATE "kernels/pointwise/bits.tmpl.h"
#include "core/foreach/intb.h"
#undef EC_TEMPLATE

static ec_elementwise_loops and_loops = {EC_ROWS_INTB(bit_and)};
static ec_elementwise_loops or_loops = {EC_ROWS_INTB(bit_or)};
static ec_elementwise_loops xor_loops = {EC_ROWS_INTB(bit_xor)};
static ec_elementwise_loops left_shift_loops = {EC_ROWS_INTEGRAL(left_shift)};
static ec_elementwise_loops right_shift_loops = {EC_ROWS_INTEGRAL(right_shift)};
static ec_elementwise_loops not_loops = {EC_ROWS_INTB(bit_not)};

ec_status ec_op_bitwise_and_tensor_out(ec_call *c) { return ec_binary(c, 2, and_loops, 0, NULL); }
ec_status ec_op_bitwise_and_scalar_out(ec_call *c) { return ec_binary(c, 2, and_loops, 0, NULL); }
ec_status ec_op_bitwise_or_tensor_out(ec_call *c) { return ec_binary(c, 2, or_loops, 0, NULL); }
ec_status ec_op_bitwise_or_scalar_out(ec_call *c) { return ec_binary(c, 2, or_loops, 0, NULL); }
ec_status ec_op_bitwise_xor_tensor_out(ec_call *c) { return ec_binary(c, 2, xor_loops, 0, NULL); }
ec_status ec_op_bitwise_xor_scalar_out(ec_call *c) { return ec_binary(c, 2, xor_loops, 0, NULL); }
ec_status ec_op_bitwise_not_out(ec_call *c) { return ec_unary(c, 1, not_loops, 0, NULL); }

ec_status ec_op_bitwise_left_shift(ec_call *c) {
  return ec_binary(c, 2, left_shift_loops, 0, NULL);
}
ec_status ec_op_bitwise_right_shift(ec_call *c) {
  return ec_binary(c, 2, right_shift_loops, 0, NULL);
}

static ec_status run_logical(ec_call *c, ec_elementwise_loops loops) {
  return ec_binary(c, 2, loops, EC_ELEMENTWISE_AS_BOOL, NULL);
}

ec_status ec_op_logical_and_out(ec_call *c) { return run_logical(c, and_loops); }
ec_status ec_op_logical_or_out(ec_call *c) { return run_logical(c, or_loops); }
ec_status ec_op_logical_xor_out(ec_call *c) { return run_logical(c, xor_loops); }
