/* gelu, elu, leaky_relu, glu. */
#include <inttypes.h>
#include <string.h>

#include "kernels/pointwise/template.h"

#include "kernels/pointwise/fast.h"
#include "kernels/vecmath.h"

#define EC_TEMPLATE "kernels/pointwise/activation.tmpl.h"
#include "core/foreach/wide.h"
#undef EC_TEMPLATE

static ec_elementwise_loops gelu_loops = {EC_ROWS_WIDE(gelu)};
static ec_elementwise_loops gelu_tanh_loops = {EC_ROWS_WIDE(gelu_tanh)};
static ec_elementwise_loops elu_loops = {EC_ROWS_WIDE(elu)};
static ec_elementwise_loops glu_loops = {EC_ROWS_WIDE(glu)};
static ec_elementwise_loops leaky_relu_loops = {EC_ROWS_WIDE(leaky_relu)};

ec_status ec_op_gelu_out(ec_call *c) {
  const char *form = ec_arg_string(c, 1);
  if (!form || !strcmp(form, "none"))
    return ec_unary_fast(c, 2, gelu_loops, EC_FAST_GELU, 0, NULL);
  if (!strcmp(form, "tanh"))
    return ec_unary_fast(c, 2, gelu_tanh_loops, EC_FAST_GELU_TANH, 0, NULL);
  return ec_call_fail(c, 1, "'%.40s', expected 'none' or 'tanh'", form);
}

static double number_arg(ec_call *c, size_t i) { return ec_scalar_double(ec_arg_scalar(c, i)); }

ec_status ec_op_elu_out(ec_call *c) {
  const double scale = number_arg(c, 2);
  ec_params params = {{{number_arg(c, 1) * scale, 0}, {scale, 0}, {number_arg(c, 3), 0}}, false};
  return ec_unary_fast(c, 4, elu_loops, EC_FAST_ELU, 0, &params);
}

ec_status ec_op_leaky_relu_out(ec_call *c) {
  ec_params params = {{{number_arg(c, 1), 0}}, false};
  return ec_unary_fast(c, 2, leaky_relu_loops, EC_FAST_LEAKY_RELU, 0, &params);
}

/* Halves self along a dimension: the first half times the sigmoid of the second. */
ec_status ec_op_glu_out(ec_call *c) {
  const ec_tensor *self = ec_arg_tensor(c, 0);
  const ec_dtype dtype = ec_tensor_dtype(self);
  ec_elementwise p = {.inputs = 2, .logical = dtype, .compute = ec_compute_dtype(dtype)};
  size_t dim;
  if (self->rank == 0) return ec_call_fail(c, 0, "0-d, expected a dimension to halve");
  EC_TRY(ec_call_wrap_dim(c, ec_arg_int(c, 1), self->rank, &dim));
  EC_TRY(ec_elementwise_find(c, glu_loops, dtype, &p.loop));
  if (self->sizes[dim] % 2 != 0)
    return ec_call_fail(c, 0, "size %" PRId64 " of dimension %zu is not even", self->sizes[dim],
                        dim);
  ec_tensor halves[2] = {*self, *self};
  halves[0].sizes[dim] = halves[1].sizes[dim] = self->sizes[dim] / 2;
  halves[0].numel = halves[1].numel = self->numel / 2;
  const int64_t offset = halves[0].sizes[dim] * self->strides[dim];
  if (self->numel) halves[1].data = (char *)self->data + (size_t)offset * ec_dtype_size(dtype);
  for (size_t k = 0; k < 2; k++) p.in[k] = (ec_operand){&halves[k], dtype, p.compute};
  return ec_elementwise_run(c, 2, &p);
}
