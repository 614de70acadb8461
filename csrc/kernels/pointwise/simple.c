/* neg, abs, sign, relu, rounding, and the predicates isnan, isinf and signbit. */
#include "kernels/pointwise/template.h"

#include "kernels/pointwise/fast.h"

#define EC_TEMPLATE "kernels/pointwise/simple.tmpl.h"
#include "core/foreach/intb.h"
#include "core/foreach/widec.h"
#undef EC_TEMPLATE
#define EC_TEMPLATE "kernels/pointwise/modulus.tmpl.h"
#include "core/foreach/complex.h"
#undef EC_TEMPLATE

#define NUMERIC(fn) EC_ROWS_INTEGRAL(fn), EC_ROWS_WIDE(fn)
#define ROUNDING(fn) EC_ROWS_INTEGRAL(same), EC_ROWS_WIDE(fn) /* integers are already rounded */

static ec_elementwise_loops neg_loops = {NUMERIC(neg), EC_ROWS_COMPLEX(neg)};
static ec_elementwise_loops abs_loops = {NUMERIC(absolute), EC_ROWS_COMPLEX(absolute)};
static ec_elementwise_loops sign_loops = {NUMERIC(sign), EC_ROWS_BOOL(sign)};
static ec_elementwise_loops relu_loops = {NUMERIC(relu)};
static ec_elementwise_loops floor_loops = {ROUNDING(round_down)};
static ec_elementwise_loops ceil_loops = {ROUNDING(round_up)};
static ec_elementwise_loops trunc_loops = {ROUNDING(round_to_zero)};
static ec_elementwise_loops round_loops = {ROUNDING(round_to_even)};
static ec_elementwise_loops signbit_loops = {NUMERIC(sign_bit), EC_ROWS_BOOL(sign_bit)};
static ec_elementwise_loops isnan_loops = {EC_ROWS_WIDE(is_nan), EC_ROWS_COMPLEX(is_nan)};
static ec_elementwise_loops isinf_loops = {EC_ROWS_WIDE(is_inf), EC_ROWS_COMPLEX(is_inf)};

ec_status ec_op_neg_out(ec_call *c) { return ec_unary(c, 1, neg_loops, 0, NULL); }
ec_status ec_op_abs_out(ec_call *c) {
  return ec_unary(c, 1, abs_loops, EC_ELEMENTWISE_TO_REAL, NULL);
}
ec_status ec_op_sign_out(ec_call *c) { return ec_unary(c, 1, sign_loops, 0, NULL); }

/* relu on the bits of float16 or bfloat16: 0 from -0 down to -infinity, whose bits are in v[0]. */
static void relu_bits(int64_t n, char *const *at, const int64_t *step, ec_params *params) {
  const uint16_t first = 0x8001, range = (uint16_t)(params->v[0].i - first);
  const bool rows = step[0] == sizeof first && step[1] == sizeof first;
  uint16_t *o = (uint16_t *)(void *)at[0];
  const uint16_t *a = (const uint16_t *)(const void *)at[1];
  for (int64_t i = 0; rows && i < n; i++) o[i] = (uint16_t)(a[i] - first) <= range ? 0 : a[i];
  for (int64_t i = 0; !rows && i < n; i++) {
    const uint16_t x = *(const uint16_t *)(const void *)(at[1] + i * step[1]);
    *(uint16_t *)(void *)(at[0] + i * step[0]) = (uint16_t)(x - first) <= range ? 0 : x;
  }
}

ec_status ec_op_relu_out(ec_call *c) {
  const ec_tensor *self = ec_arg_tensor(c, 0);
  const ec_dtype dtype = ec_tensor_dtype(self);
  if (c->reference || !ec_dtype_in(dtype, EC_SET_HALF)) return ec_unary(c, 1, relu_loops, 0, NULL);
  ec_elementwise p = {.inputs = 1, .in = {{self, dtype, dtype}}, .logical = dtype, .compute = dtype,
                      .loop = relu_bits};
  p.params.v[0].i = dtype == EC_BFLOAT16 ? 0xff80 : 0xfc00;
  return ec_elementwise_run(c, 1, &p);
}

static ec_status run_rounding(ec_call *c, ec_elementwise_loops loops, ec_fast which) {
  return ec_unary_fast(c, 1, loops, which, 0, NULL);
}

ec_status ec_op_floor_out(ec_call *c) { return run_rounding(c, floor_loops, EC_FAST_FLOOR); }
ec_status ec_op_ceil_out(ec_call *c) { return run_rounding(c, ceil_loops, EC_FAST_CEIL); }
ec_status ec_op_trunc_out(ec_call *c) { return run_rounding(c, trunc_loops, EC_FAST_TRUNC); }
ec_status ec_op_round_out(ec_call *c) { return run_rounding(c, round_loops, EC_FAST_ROUND); }

/* Runs a predicate. It is false for integers and bool, as for their float32 values. */
static ec_status run_predicate(ec_call *c, ec_elementwise_loops loops) {
  return ec_unary(c, 1, loops, EC_ELEMENTWISE_TO_FLOAT | EC_ELEMENTWISE_TO_BOOL, NULL);
}

ec_status ec_op_isnan_out(ec_call *c) { return run_predicate(c, isnan_loops); }
ec_status ec_op_isinf_out(ec_call *c) { return run_predicate(c, isinf_loops); }
ec_status ec_op_signbit_out(ec_call *c) {
  return ec_unary(c, 1, signbit_loops, EC_ELEMENTWISE_TO_BOOL, NULL);
}
