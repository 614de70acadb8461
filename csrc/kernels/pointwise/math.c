/* exp, log, sqrt, trigonometry and related functions: integers and bool compute in float32. */
#include "kernels/pointwise/template.h"

#include "kernels/pointwise/fast.h"

#define EC_TEMPLATE "kernels/pointwise/math.tmpl.h"
#include "core/foreach/widec.h"
#undef EC_TEMPLATE

#define COMPLEX_TOO(fn) EC_ROWS_WIDE(fn), EC_ROWS_COMPLEX(fn)

static ec_status unary_math(ec_call *c, ec_elementwise_loops loops) {
  return ec_unary(c, 1, loops, EC_ELEMENTWISE_TO_FLOAT, NULL);
}

static ec_status unary_math_fast(ec_call *c, ec_elementwise_loops loops, ec_fast which) {
  return ec_unary_fast(c, 1, loops, which, EC_ELEMENTWISE_TO_FLOAT, NULL);
}

static ec_elementwise_loops exp_loops = {COMPLEX_TOO(point_exp)};
static ec_elementwise_loops log_loops = {COMPLEX_TOO(point_log)};
static ec_elementwise_loops sqrt_loops = {COMPLEX_TOO(point_sqrt)};
static ec_elementwise_loops sin_loops = {COMPLEX_TOO(point_sin)};
static ec_elementwise_loops cos_loops = {COMPLEX_TOO(point_cos)};
static ec_elementwise_loops tan_loops = {COMPLEX_TOO(point_tan)};
static ec_elementwise_loops asin_loops = {COMPLEX_TOO(point_asin)};
static ec_elementwise_loops acos_loops = {COMPLEX_TOO(point_acos)};
static ec_elementwise_loops atan_loops = {COMPLEX_TOO(point_atan)};
static ec_elementwise_loops sinh_loops = {COMPLEX_TOO(point_sinh)};
static ec_elementwise_loops cosh_loops = {COMPLEX_TOO(point_cosh)};
static ec_elementwise_loops tanh_loops = {COMPLEX_TOO(point_tanh)};
static ec_elementwise_loops asinh_loops = {COMPLEX_TOO(point_asinh)};
static ec_elementwise_loops acosh_loops = {COMPLEX_TOO(point_acosh)};
static ec_elementwise_loops atanh_loops = {COMPLEX_TOO(point_atanh)};
static ec_elementwise_loops rsqrt_loops = {COMPLEX_TOO(point_rsqrt)};
static ec_elementwise_loops reciprocal_loops = {COMPLEX_TOO(point_reciprocal)};
static ec_elementwise_loops sigmoid_loops = {COMPLEX_TOO(point_sigmoid)};
static ec_elementwise_loops expm1_loops = {COMPLEX_TOO(point_expm1)};
static ec_elementwise_loops log1p_loops = {COMPLEX_TOO(point_log1p)};
static ec_elementwise_loops log2_loops = {COMPLEX_TOO(point_log2)};
static ec_elementwise_loops log10_loops = {COMPLEX_TOO(point_log10)};
static ec_elementwise_loops erf_loops = {EC_ROWS_WIDE(point_erf)};
static ec_elementwise_loops exp2_loops = {COMPLEX_TOO(point_exp2)};
static ec_elementwise_loops erfc_loops = {EC_ROWS_WIDE(point_erfc)};
static ec_elementwise_loops hypot_loops = {EC_ROWS_WIDE(point_hypot)};
static ec_elementwise_loops copysign_loops = {EC_ROWS_WIDE(point_copysign)};
static ec_elementwise_loops atan2_loops = {EC_ROWS_WIDE(point_atan2)};
static ec_elementwise_loops logit_loops = {EC_ROWS_WIDE(point_logit)};

ec_status ec_op_exp_out(ec_call *c) { return unary_math_fast(c, exp_loops, EC_FAST_EXP); }
ec_status ec_op_log_out(ec_call *c) { return unary_math_fast(c, log_loops, EC_FAST_LOG); }
ec_status ec_op_sqrt_out(ec_call *c) { return unary_math_fast(c, sqrt_loops, EC_FAST_SQRT); }
ec_status ec_op_sin_out(ec_call *c) { return unary_math_fast(c, sin_loops, EC_FAST_SIN); }
ec_status ec_op_cos_out(ec_call *c) { return unary_math_fast(c, cos_loops, EC_FAST_COS); }
ec_status ec_op_tan_out(ec_call *c) { return unary_math_fast(c, tan_loops, EC_FAST_TAN); }
ec_status ec_op_asin_out(ec_call *c) { return unary_math_fast(c, asin_loops, EC_FAST_ASIN); }
ec_status ec_op_acos_out(ec_call *c) { return unary_math_fast(c, acos_loops, EC_FAST_ACOS); }
ec_status ec_op_atan_out(ec_call *c) { return unary_math_fast(c, atan_loops, EC_FAST_ATAN); }
ec_status ec_op_sinh_out(ec_call *c) { return unary_math_fast(c, sinh_loops, EC_FAST_SINH); }
ec_status ec_op_cosh_out(ec_call *c) { return unary_math_fast(c, cosh_loops, EC_FAST_COSH); }
ec_status ec_op_tanh_out(ec_call *c) { return unary_math_fast(c, tanh_loops, EC_FAST_TANH); }
ec_status ec_op_asinh_out(ec_call *c) { return unary_math_fast(c, asinh_loops, EC_FAST_ASINH); }
ec_status ec_op_acosh_out(ec_call *c) { return unary_math_fast(c, acosh_loops, EC_FAST_ACOSH); }
ec_status ec_op_atanh_out(ec_call *c) { return unary_math_fast(c, atanh_loops, EC_FAST_ATANH); }
ec_status ec_op_rsqrt_out(ec_call *c) { return unary_math_fast(c, rsqrt_loops, EC_FAST_RSQRT); }
ec_status ec_op_reciprocal_out(ec_call *c) {
  return unary_math_fast(c, reciprocal_loops, EC_FAST_RECIPROCAL);
}
ec_status ec_op_sigmoid_out(ec_call *c) {
  return unary_math_fast(c, sigmoid_loops, EC_FAST_SIGMOID);
}
ec_status ec_op_expm1_out(ec_call *c) { return unary_math_fast(c, expm1_loops, EC_FAST_EXPM1); }
ec_status ec_op_log1p_out(ec_call *c) { return unary_math_fast(c, log1p_loops, EC_FAST_LOG1P); }
ec_status ec_op_log2_out(ec_call *c) { return unary_math_fast(c, log2_loops, EC_FAST_LOG2); }
ec_status ec_op_log10_out(ec_call *c) { return unary_math_fast(c, log10_loops, EC_FAST_LOG10); }
ec_status ec_op_erf_out(ec_call *c) { return unary_math_fast(c, erf_loops, EC_FAST_ERF); }

ec_status ec_op_exp2_out(ec_call *c) { return unary_math(c, exp2_loops); }
ec_status ec_op_erfc_out(ec_call *c) { return unary_math(c, erfc_loops); }
ec_status ec_op_hypot_out(ec_call *c) { return ec_binary(c, 2, hypot_loops, 0, NULL); }

ec_status ec_op_copysign_out(ec_call *c) {
  return ec_binary(c, 2, copysign_loops, EC_ELEMENTWISE_TO_FLOAT, NULL);
}
ec_status ec_op_copysign_scalar_out(ec_call *c) {
  return ec_binary(c, 2, copysign_loops, EC_ELEMENTWISE_TO_FLOAT, NULL);
}

ec_status ec_op_atan2_out(ec_call *c) {
  return ec_binary_fast(c, 2, atan2_loops, EC_FAST_ATAN2, EC_ELEMENTWISE_TO_FLOAT);
}

ec_status ec_op_logit_out(ec_call *c) {
  double eps = ec_arg_opt_double(c, 1, -1);
  const ec_dtype dtype = ec_tensor_dtype(ec_arg_tensor(c, 0));
  if (ec_dtype_in(dtype, EC_SET_HALF)) { /* eps is a number of self's dtype */
    ec_number number;
    ec_number_init(&number, dtype, (ec_scalar){EC_KIND_DOUBLE, {.d = eps}});
    ec_cast(EC_FLOAT64, dtype)(1, (char *)&eps, 0, number.tensor.data, 0);
  }
  ec_params params = {{{eps, 0}}, false};
  return ec_unary(c, 2, logit_loops, EC_ELEMENTWISE_TO_FLOAT, &params);
}
