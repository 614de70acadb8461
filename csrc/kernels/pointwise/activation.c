/* gelu, elu, leaky_relu. */
#include <string.h>

#include "kernels/pointwise/template.h"

#include "kernels/pointwise/fast.h"

#define EC_TEMPLATE "kernels/pointwise/activation.tmpl.h"
#include "core/foreach/wide.h"
#undef EC_TEMPLATE

static ec_point_loops gelu_loops = {EC_ROWS_WIDE(gelu)};
static ec_point_loops gelu_tanh_loops = {EC_ROWS_WIDE(gelu_tanh)};
static ec_point_loops elu_loops = {EC_ROWS_WIDE(elu)};
static ec_point_loops leaky_relu_loops = {EC_ROWS_WIDE(leaky_relu)};

ec_status ec_op_gelu_out(ec_call *c) {
  const char *form = ec_arg_string(c, 1);
  if (!form || !strcmp(form, "none"))
    return ec_unary_fast(c, 2, gelu_loops, EC_FAST_GELU, 0, NULL);
  if (!strcmp(form, "tanh"))
    return ec_unary_fast(c, 2, gelu_tanh_loops, EC_FAST_GELU_TANH, 0, NULL);
  return ec_call_fail(c, 1, "'%.40s', expected 'none' or 'tanh'", form);
}

static double number(ec_call *c, size_t i) { return ec_scalar_double(ec_arg_scalar(c, i)); }

ec_status ec_op_elu_out(ec_call *c) {
  const double scale = number(c, 2);
  ec_params params = {{{number(c, 1) * scale, 0}, {scale, 0}, {number(c, 3), 0}}, false};
  return ec_unary_fast(c, 4, elu_loops, EC_FAST_ELU, 0, &params);
}

ec_status ec_op_leaky_relu_out(ec_call *c) {
  ec_params params = {{{number(c, 1), 0}}, false};
  return ec_unary(c, 2, leaky_relu_loops, 0, &params);
}
