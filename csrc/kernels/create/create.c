/* Operators that fill an output from numbers: full, zeros, ones, arange, ... As in eager PyTorch, a
 * number must fit the output's dtype. */
#include "kernels/create/range.h"
#include "kernels/pointwise/elementwise.h"

static ec_status fill_output(ec_call *c, size_t o, ec_scalar s) {
  uint64_t element[2];
  ec_tensor *out = ec_arg_tensor(c, o);
  ec_cast_scalar(ec_tensor_dtype(out), s, element);
  ec_fill_tensor(c, out, element);
  return EC_OK;
}

/* Resizes the output to the int list `sizes`. */
static ec_status resize_output(ec_call *c, size_t sizes, size_t o) {
  ec_ints list;
  EC_TRY(ec_arg_ints(c, sizes, &list));
  return ec_call_resize(c, o, list.n, list.v);
}

/* Fills the output with the number in argument `i`. */
static ec_status fill_argument(ec_call *c, size_t o, size_t i) {
  EC_TRY(ec_call_check_scalar(c, i, ec_tensor_dtype(ec_arg_tensor(c, o))));
  return fill_output(c, o, ec_arg_scalar(c, i));
}

ec_status ec_op_full_out(ec_call *c) {
  EC_TRY(resize_output(c, 0, 2));
  return fill_argument(c, 2, 1);
}

ec_status ec_op_zeros_out(ec_call *c) {
  EC_TRY(resize_output(c, 0, 1));
  return fill_output(c, 1, (ec_scalar){EC_KIND_INT, {.i = 0}});
}

ec_status ec_op_ones_out(ec_call *c) {
  EC_TRY(resize_output(c, 0, 1));
  return fill_output(c, 1, (ec_scalar){EC_KIND_INT, {.i = 1}});
}

/* Zeros, uninitialised in eager PyTorch: the output may be the caller's memory, which would hold
 * whatever the process had there. */
ec_status ec_op_empty_out(ec_call *c) {
  EC_TRY(resize_output(c, 0, 2));
  return fill_output(c, 2, (ec_scalar){EC_KIND_INT, {.i = 0}});
}

ec_status ec_op_empty_dim_order_out(ec_call *c) { return ec_op_empty_out(c); }

/* Resizes the output to self's sizes. */
static ec_status resize_like(ec_call *c, size_t o) {
  const ec_tensor *self = ec_arg_tensor(c, 0);
  return ec_call_resize(c, o, self->rank, self->sizes);
}

ec_status ec_op_full_like_out(ec_call *c) {
  EC_TRY(resize_like(c, 3));
  return fill_argument(c, 3, 1);
}

/* Like eager PyTorch, turns numbers that overflow float16 or bfloat16 into infinities. */
ec_status ec_op_scalar_tensor_out(ec_call *c) {
  const bool half = ec_dtype_in(ec_tensor_dtype(ec_arg_tensor(c, 1)), EC_SET_HALF);
  EC_TRY(ec_call_resize(c, 1, 0, NULL));
  return half ? fill_output(c, 1, ec_arg_scalar(c, 0)) : fill_argument(c, 1, 0);
}

ec_status ec_op_fill_scalar_out(ec_call *c) {
  EC_TRY(ec_call_check_same_dtype(c, 2, 0));
  EC_TRY(resize_like(c, 2));
  return fill_argument(c, 2, 1);
}

ec_status ec_op_fill_tensor_out(ec_call *c) {
  const ec_tensor *value = ec_arg_tensor(c, 1);
  uint64_t element[2];
  EC_TRY(ec_call_check_same_dtype(c, 2, 0));
  if (value->rank != 0) return ec_call_fail(c, 1, "has dimensions, expected a 0-d tensor");
  ec_tensor *out = ec_arg_tensor(c, 2);
  ec_cast(ec_tensor_dtype(out), ec_tensor_dtype(value))(1, (char *)element, 0, value->data, 0);
  EC_TRY(resize_like(c, 2));
  ec_fill_tensor(c, out, element);
  return EC_OK;
}

ec_status ec_op_arange_out(ec_call *c) {
  const ec_scalar zero = {EC_KIND_INT, {.i = 0}}, one = {EC_KIND_INT, {.i = 1}};
  return ec_arange(c, 1, zero, ec_arg_scalar(c, 0), one);
}

ec_status ec_op_arange_start_out(ec_call *c) {
  return ec_arange(c, 3, ec_arg_scalar(c, 0), ec_arg_scalar(c, 1), ec_arg_scalar(c, 2));
}
