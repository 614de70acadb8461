/* clamp with numbers or tensors as bounds, and hardtanh. */
#include "kernels/pointwise/template.h"

#define EC_TEMPLATE "kernels/pointwise/clamp.tmpl.h"
#include "core/foreach/intb.h"
#include "core/foreach/wide.h"
#undef EC_TEMPLATE

#define NUMERIC(fn) EC_ROWS_INTEGRAL(fn), EC_ROWS_WIDE(fn)

static ec_elementwise_loops low_loops = {NUMERIC(clamp_low), EC_ROWS_BOOL(clamp_low)};
static ec_elementwise_loops high_loops = {NUMERIC(clamp_high), EC_ROWS_BOOL(clamp_high)};
static ec_elementwise_loops both_loops = {NUMERIC(clamp)};

/* Clamps self between bounds (NULL: none), all converted to `common`. */
static ec_status run_clamp(ec_call *c, ec_dtype common, const ec_tensor *low,
                           const ec_tensor *high) {
  const ec_dtype compute = ec_compute_dtype(common);
  ec_elementwise p = {.logical = common, .compute = compute, .inputs = 1};
  p.in[0] = (ec_operand){ec_arg_tensor(c, 0), common, compute};
  if (low) p.in[p.inputs++] = (ec_operand){low, common, compute};
  if (high) p.in[p.inputs++] = (ec_operand){high, common, compute};
  p.params.v[0].i = low != NULL; /* joined.h */
  ec_elementwise_loops *loops = low && high ? &both_loops : low ? &low_loops : &high_loops;
  EC_TRY(ec_elementwise_find(c, *loops, common, &p.loop));
  return ec_elementwise_run(c, 3, &p);
}

static ec_status check_bounds(ec_call *c) {
  if (!ec_arg_is_none(c, 1) || !ec_arg_is_none(c, 2)) return EC_OK;
  return ec_call_fail(c, 1, "None, expected a bound here or in 'max'");
}

ec_status ec_op_clamp_out(ec_call *c) {
  ec_number bounds[2];
  ec_result_type r = {0};
  ec_dtype common;
  EC_TRY(check_bounds(c));
  ec_result_add_tensor(&r, ec_arg_tensor(c, 0));
  for (size_t i = 1; i <= 2; i++)
    if (!ec_arg_is_none(c, i)) ec_result_add_scalar(&r, ec_arg_scalar(c, i));
  EC_TRY(ec_result_dtype(c, &r, &common));
  for (size_t i = 1; i <= 2; i++) {
    if (ec_arg_is_none(c, i)) continue;
    EC_TRY(ec_call_check_scalar(c, i, common));
    ec_number_init(&bounds[i - 1], common, ec_arg_scalar(c, i));
  }
  return run_clamp(c, common, ec_arg_is_none(c, 1) ? NULL : &bounds[0].tensor,
                   ec_arg_is_none(c, 2) ? NULL : &bounds[1].tensor);
}

ec_status ec_op_clamp_tensor_out(ec_call *c) {
  ec_result_type r = {0};
  ec_dtype common;
  EC_TRY(check_bounds(c));
  for (size_t i = 0; i < 3; i++)
    if (!ec_arg_is_none(c, i)) ec_result_add_tensor(&r, ec_arg_tensor(c, i));
  EC_TRY(ec_result_dtype(c, &r, &common));
  return run_clamp(c, common, ec_arg_opt_tensor(c, 1), ec_arg_opt_tensor(c, 2));
}

/* Converts the bounds to self's kind: hardtanh never promotes. */
ec_status ec_op_hardtanh_out(ec_call *c) {
  const ec_dtype dtype = ec_tensor_dtype(ec_arg_tensor(c, 0));
  ec_number bounds[2];
  EC_TRY(ec_call_check_dtype(c, 0, EC_SET_REAL));
  for (size_t i = 1; i <= 2; i++) {
    ec_scalar s = ec_arg_scalar(c, i);
    if (ec_is_integral(dtype)) s = (ec_scalar){EC_KIND_INT, {.i = ec_scalar_int(s)}};
    if (dtype == EC_UINT8 && s.as.i < 0)
      return ec_call_fail(c, i, "a negative limit, which uint8 cannot represent");
    EC_TRY(ec_call_check_scalar(c, i, dtype));
    ec_number_init(&bounds[i - 1], dtype, s);
  }
  return run_clamp(c, dtype, &bounds[0].tensor, &bounds[1].tensor);
}
