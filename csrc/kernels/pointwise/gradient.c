/* Gradients of activations that the exporter does not decompose. */
#include "kernels/pointwise/template.h"

#define EC_TEMPLATE "kernels/pointwise/gradient.tmpl.h"
#include "core/foreach/widec.h"
#undef EC_TEMPLATE

static ec_elementwise_loops silu_loops = {EC_ROWS_WIDE(silu_gradient),
                                          EC_ROWS_COMPLEX(silu_gradient)};
static ec_elementwise_loops shrink_loops = {EC_ROWS_WIDE(shrink_gradient)};

ec_status ec_op_silu_backward_grad_input(ec_call *c) {
  return ec_binary(c, 2, silu_loops, EC_ELEMENTWISE_SAME, NULL);
}

/* Compares the bound as a number of the tensors' dtype. */
static ec_status run_shrink(ec_call *c) {
  ec_dtype common;
  ec_number bound;
  ec_params params = {.zero_division = false};
  EC_TRY(ec_call_promote(c, 0, 1, &common));
  ec_number_init(&bound, common, ec_arg_scalar(c, 2));
  ec_cast(EC_FLOAT64, common)(1, (char *)&params.v[0].d, 0, (const char *)bound.element, 0);
  return ec_binary(c, 3, shrink_loops, EC_ELEMENTWISE_SAME, &params);
}

ec_status ec_op_softshrink_backward_grad_input(ec_call *c) { return run_shrink(c); }

ec_status ec_op_hardshrink_backward_grad_input(ec_call *c) { return run_shrink(c); }
