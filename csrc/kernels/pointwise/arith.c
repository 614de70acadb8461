/* add, sub, mul, div and related operators. */
#include <string.h>

#include "kernels/pointwise/fast.h"
#include "kernels/pointwise/template.h"

#define EC_TEMPLATE "kernels/pointwise/arith.tmpl.h"
#include "core/foreach/intb.h"
#include "core/foreach/widec.h"
#undef EC_TEMPLATE

#define NUMERIC(fn) EC_ROWS_INTEGRAL(fn), EC_ROWS_WIDE(fn)

static ec_elementwise_loops add_loops = {NUMERIC(add), EC_ROWS_COMPLEX(add), EC_ROWS_BOOL(add)};
static ec_elementwise_loops mul_loops = {NUMERIC(mul), EC_ROWS_COMPLEX(mul), EC_ROWS_BOOL(mul)};
static ec_elementwise_loops add_to_loops = {NUMERIC(add_to), EC_ROWS_COMPLEX(add_to)};
static ec_elementwise_loops div_loops = {EC_ROWS_WIDE(div), EC_ROWS_COMPLEX(div)};
static ec_elementwise_loops maximum_loops = {NUMERIC(maximum), EC_ROWS_BOOL(maximum)};
static ec_elementwise_loops minimum_loops = {NUMERIC(minimum), EC_ROWS_BOOL(minimum)};
static ec_elementwise_loops fmax_loops = {NUMERIC(fmax_of), EC_ROWS_BOOL(fmax_of)};
static ec_elementwise_loops fmin_loops = {NUMERIC(fmin_of), EC_ROWS_BOOL(fmin_of)};
static ec_elementwise_loops gcd_loops = {EC_ROWS_INTEGRAL(gcd)};
static ec_elementwise_loops lcm_loops = {EC_ROWS_INTEGRAL(lcm)};
static ec_elementwise_loops div_floor_loops = {NUMERIC(div_floor)};
static ec_elementwise_loops div_trunc_loops = {NUMERIC(div_trunc)};
static ec_elementwise_loops remainder_loops = {NUMERIC(remainder)};
static ec_elementwise_loops fmod_loops = {NUMERIC(fmod)};

static bool is_bool(const ec_call *c, size_t i) {
  const ec_value *v = c->args[i];
  return v->kind == EC_KIND_BOOL || (v->kind == EC_KIND_TENSOR && v->as.tensor->dtype == EC_BOOL);
}

/* Multiplies by alpha (with `minus`, by -alpha) in the common dtype; alpha must be of its kind. */
static ec_status add_with_alpha(ec_call *c, bool minus, ec_elementwise_loops loops) {
  ec_dtype common;
  ec_scalar alpha = ec_arg_scalar(c, 2);
  EC_TRY(ec_call_promote(c, 0, 1, &common));
  if (alpha.kind == EC_KIND_BOOL && common != EC_BOOL)
    return ec_call_fail(c, 2, "a bool, expected a number for a result of dtype %s",
                        ec_dtype_name(common));
  if (alpha.kind == EC_KIND_DOUBLE && ec_dtype_in(common, EC_SET_INTB))
    return ec_call_fail(c, 2, "floating point, expected an integer for a result of dtype %s",
                        ec_dtype_name(common));
  EC_TRY(ec_call_check_scalar(c, 2, common));
  if (minus && alpha.kind == EC_KIND_DOUBLE) alpha.as.d = -alpha.as.d;
  if (minus && alpha.kind == EC_KIND_INT) alpha.as.i = (int64_t)(0 - (uint64_t)alpha.as.i);
  ec_params params = {{{ec_scalar_double(alpha), ec_scalar_int(alpha)}}, false};
  return ec_binary(c, 3, loops, EC_ELEMENTWISE_SAME, &params);
}

/* Adds with -alpha, as in eager PyTorch: an integer 0 has no sign. */
static ec_status run_sub(ec_call *c, ec_elementwise_loops loops) {
  for (size_t i = 0; i < 2; i++)
    if (is_bool(c, i))
      return ec_call_fail(c, i, "is bool, which cannot be subtracted (use logical_xor)");
  return add_with_alpha(c, true, loops);
}

ec_status ec_op_add_out(ec_call *c) { return add_with_alpha(c, false, add_loops); }
ec_status ec_op_add_scalar_out(ec_call *c) { return add_with_alpha(c, false, add_loops); }
ec_status ec_op_sub_out(ec_call *c) { return run_sub(c, add_loops); }
ec_status ec_op_sub_scalar_out(ec_call *c) { return run_sub(c, add_loops); }
ec_status ec_op_rsub_scalar_out(ec_call *c) { return run_sub(c, add_to_loops); }

static ec_status run_mul(ec_call *c) {
  return ec_binary(c, 2, mul_loops, EC_ELEMENTWISE_EXACT_SCALAR, NULL);
}

ec_status ec_op_mul_out(ec_call *c) { return run_mul(c); }
ec_status ec_op_mul_scalar_out(ec_call *c) { return run_mul(c); }

/* Runs a division; `mode` is NULL for true division. */
static ec_status run_div(ec_call *c, size_t o, const char *mode) {
  if (!mode)
    return ec_binary_fast(c, o, div_loops, EC_FAST_DIV,
                          EC_ELEMENTWISE_TO_FLOAT | EC_ELEMENTWISE_EXACT_SCALAR);
  if (!strcmp(mode, "floor"))
    return ec_binary_fast(c, o, div_floor_loops, EC_FAST_DIV_FLOOR, EC_ELEMENTWISE_EXACT_SCALAR);
  if (!strcmp(mode, "trunc")) return ec_binary(c, o, div_trunc_loops, EC_ELEMENTWISE_EXACT_SCALAR,
                                               NULL);
  return ec_call_fail(c, 2, "'%.40s', expected None, 'floor' or 'trunc'", mode);
}

ec_status ec_op_div_out(ec_call *c) { return run_div(c, 2, NULL); }
ec_status ec_op_div_scalar_out(ec_call *c) { return run_div(c, 2, NULL); }
ec_status ec_op_div_out_mode(ec_call *c) { return run_div(c, 3, ec_arg_string(c, 2)); }
ec_status ec_op_div_scalar_mode_out(ec_call *c) { return run_div(c, 3, ec_arg_string(c, 2)); }
ec_status ec_op_floor_divide_out(ec_call *c) { return run_div(c, 2, "floor"); }

ec_status ec_op_maximum_out(ec_call *c) { return ec_binary(c, 2, maximum_loops, 0, NULL); }
ec_status ec_op_minimum_out(ec_call *c) { return ec_binary(c, 2, minimum_loops, 0, NULL); }

ec_status ec_op_fmax_out(ec_call *c) { return ec_binary(c, 2, fmax_loops, 0, NULL); }
ec_status ec_op_fmin_out(ec_call *c) { return ec_binary(c, 2, fmin_loops, 0, NULL); }
ec_status ec_op_gcd_out(ec_call *c) { return ec_binary(c, 2, gcd_loops, 0, NULL); }
ec_status ec_op_lcm_out(ec_call *c) { return ec_binary(c, 2, lcm_loops, 0, NULL); }

static ec_status run_modulus(ec_call *c, ec_elementwise_loops loops, ec_fast which) {
  return ec_binary_fast(c, 2, loops, which, 0);
}

ec_status ec_op_remainder_tensor_out(ec_call *c) {
  return run_modulus(c, remainder_loops, EC_FAST_REMAINDER);
}
ec_status ec_op_remainder_scalar_out(ec_call *c) {
  return run_modulus(c, remainder_loops, EC_FAST_REMAINDER);
}
ec_status ec_op_fmod_tensor_out(ec_call *c) { return run_modulus(c, fmod_loops, EC_FAST_FMOD); }
ec_status ec_op_fmod_scalar_out(ec_call *c) { return run_modulus(c, fmod_loops, EC_FAST_FMOD); }
