/* quantize_* and dequantize_* by tensor, channel and token: arguments and their checks. */
#include <inttypes.h>

#include "kernels/quantized/affine.h"

/* Converts the input to float32. */
static ec_status input_as_float32(ec_call *c, ec_affine *a) {
  a->x = *ec_arg_tensor(c, 0);
  a->as = EC_FLOAT32;
  return ec_call_check_dtype(c, 0, EC_SET_SINGLE);
}

/* Checks that the input has the dtype of argument `i`, which follows quant_min and quant_max. */
static ec_status check_input_dtype(ec_call *c, ec_affine *a, size_t i) {
  a->x = *ec_arg_tensor(c, 0);
  a->as = ec_tensor_dtype(&a->x);
  if (ec_arg_int(c, i) == (int64_t)a->as) return EC_OK;
  return ec_call_fail(c, 0, "dtype %s, expected that of argument '%s'", ec_dtype_name(a->as),
                      c->op->args[i].name);
}

/* Checks that argument `out` has the dtype in argument `i` (None: float32). */
static ec_status check_out_dtype(ec_call *c, size_t i, size_t out) {
  int64_t dtype = ec_arg_opt_int(c, i, EC_FLOAT32);
  if (!ec_dtype_valid(dtype)) return ec_call_fail(c, i, "%" PRId64 " is not a dtype", dtype);
  return ec_call_check_dtype(c, out, EC_BIT(dtype));
}

/* ---- by tensor ------------------------------------------------------------------------------ */

/* Reads the only element of argument `i`: a float64, or an int64 if `s` is of that kind. */
static ec_status only_element(ec_call *c, size_t i, ec_scalar *s) {
  const ec_tensor *t = ec_arg_tensor(c, i);
  EC_TRY(ec_call_check_dtype(c, i, EC_SET_REALB));
  if (t->numel != 1) return ec_call_fail(c, i, "%" PRId64 " elements, expected one", t->numel);
  ec_dtype dtype = s->kind == EC_KIND_INT ? EC_INT64 : EC_FLOAT64;
  ec_cast(dtype, ec_tensor_dtype(t))(1, (char *)&s->as, 0, t->data, 0);
  return EC_OK;
}

/* Reads scale and zero point (arguments 1 and 2) as numbers; either may be a tensor. Eager rounds
 * the number to float16 or bfloat16 in differences, but not in products. */
static ec_status read_per_tensor(ec_call *c, ec_affine *a, bool inverse, ec_number held[2]) {
  ec_scalar scale = {.kind = EC_KIND_DOUBLE}, zero = ec_arg_scalar(c, 2);
  if (c->args[1]->kind == EC_KIND_TENSOR) {
    bool whole = !ec_is_floating(ec_tensor_dtype(ec_arg_tensor(c, 2)));
    zero.kind = whole ? EC_KIND_INT : EC_KIND_DOUBLE;
    EC_TRY(only_element(c, 1, &scale));
    EC_TRY(only_element(c, 2, &zero));
  } else {
    scale.as.d = ec_arg_double(c, 1);
  }
  if (inverse && scale.as.d == 0) return ec_call_fail(c, 1, "a scale of 0");
  if (inverse) scale.as.d = 1.0 / scale.as.d;
  a->scale = ec_affine_number(&held[0], ec_compute_dtype(a->as), scale);
  a->zero = ec_affine_number(&held[1], a->as, zero);
  return EC_OK;
}

ec_status ec_op_quantize_per_tensor_out(ec_call *c) {
  ec_affine a = {0};
  ec_number held[2];
  EC_TRY(input_as_float32(c, &a));
  EC_TRY(read_per_tensor(c, &a, true, held));
  return ec_affine_quantize(c, &a, 3, false, 6);
}

ec_status ec_op_dequantize_per_tensor_out(ec_call *c) {
  ec_affine a = {0};
  ec_number held[2];
  EC_TRY(check_input_dtype(c, &a, 5));
  EC_TRY(ec_affine_check_dtype(c, 5));
  EC_TRY(check_out_dtype(c, 6, 7));
  EC_TRY(ec_call_check_dtype(c, 7, EC_SET_FLOATING));
  a.as = ec_tensor_dtype(ec_arg_tensor(c, 7));
  EC_TRY(read_per_tensor(c, &a, false, held));
  return ec_affine_dequantize(c, &a, 7);
}

/* ---- by channel ----------------------------------------------------------------------------- */

/* Reads argument `i`, one number per index of the axis or one for all, broadcast to the input. */
static ec_status read_along_axis(ec_call *c, size_t i, const ec_tensor *x, size_t axis,
                                 ec_tensor *out) {
  const ec_tensor *t = ec_arg_tensor(c, i);
  EC_TRY(ec_call_check_dtype(c, i, EC_SET_REAL));
  *out = ec_affine_along(t, x->rank, axis);
  if (t->numel == x->sizes[axis] || t->numel == 1) return EC_OK;
  return ec_call_fail(c, i, "%" PRId64 " elements, expected %" PRId64
                      ", the size of dimension %zu of 'input'", t->numel, x->sizes[axis], axis);
}

/* Repeats the numbers if few elements follow each index of the axis, so that the inner loop covers
 * all indices. */
static ec_status repeat_along_axis(ec_call *c, const ec_tensor *x, size_t axis, ec_tensor *t) {
  const int64_t inside = x->strides[axis];
  if (c->reference || x->numel == 0 || t->numel == 1 || inside == 1 || inside > 64) return EC_OK;
  ec_tensor all = *t;
  for (size_t d = 0; d < x->rank; d++) {
    if (d != axis && x->strides[d] < inside) all.sizes[d] = x->sizes[d];
    all.strides[d] = all.sizes[d] == 1 ? 1 : x->strides[d];
  }
  all.numel = t->numel * inside; /* at most the input's */
  const size_t item = ec_dtype_size(ec_tensor_dtype(t));
  EC_TRY(ec_call_scratch(c, (size_t)all.numel, item, &all.data));
  ec_view to = ec_view_of(&all), from = ec_view_of(t);
  ec_copy_view(c, &to, &from);
  *t = all;
  return EC_OK;
}

/* Reads scales and zero points (arguments 1 and 2) along the axis (argument 3). */
static ec_status read_per_channel(ec_call *c, ec_affine *a) {
  size_t axis;
  EC_TRY(ec_call_check_rank(c, 0, 1, EC_MAX_RANK));
  EC_TRY(ec_call_wrap_dim(c, ec_arg_int(c, 3), a->x.rank, &axis));
  EC_TRY(ec_call_check_rank(c, 1, 1, EC_MAX_RANK));
  EC_TRY(read_along_axis(c, 1, &a->x, axis, &a->scale));
  const ec_tensor *scale = ec_arg_tensor(c, 1), *zero = ec_arg_opt_tensor(c, 2);
  if (scale->sizes[0] != scale->numel)
    return ec_call_fail(c, 1, "several dimensions, expected a vector");
  a->no_zero = !zero;
  EC_TRY(repeat_along_axis(c, &a->x, axis, &a->scale));
  if (!zero) return EC_OK;
  if (zero->numel != scale->numel)
    return ec_call_fail(c, 2, "%" PRId64 " elements, expected %" PRId64 " as in '%s'", zero->numel,
                        scale->numel, c->op->args[1].name);
  EC_TRY(read_along_axis(c, 2, &a->x, axis, &a->zero));
  return repeat_along_axis(c, &a->x, axis, &a->zero);
}

ec_status ec_op_quantize_per_channel_out(ec_call *c) {
  ec_affine a = {0};
  EC_TRY(input_as_float32(c, &a));
  EC_TRY(read_per_channel(c, &a));
  EC_TRY(ec_affine_invert(c, &a));
  return ec_affine_quantize(c, &a, 4, false, 7);
}

ec_status ec_op_dequantize_per_channel_out(ec_call *c) {
  ec_affine a = {0};
  EC_TRY(check_input_dtype(c, &a, 6));
  EC_TRY(ec_affine_check_range(c, 4));
  EC_TRY(check_out_dtype(c, 7, 8));
  EC_TRY(read_per_channel(c, &a));
  return ec_affine_dequantize(c, &a, 8);
}

/* ---- by token ------------------------------------------------------------------------------- */

/* Reads argument `i`, which broadcasts to the input. */
static ec_status broadcast_to_input(ec_call *c, size_t i, const ec_tensor *x, ec_tensor *out) {
  const ec_tensor *t = ec_arg_tensor(c, i);
  char text[EC_SHAPE_TEXT], of[EC_SHAPE_TEXT];
  EC_TRY(ec_call_check_dtype(c, i, EC_SET_REALB));
  *out = *t;
  if (ec_broadcasts_to(t->rank, t->sizes, x->rank, x->sizes)) return EC_OK;
  return ec_call_fail(c, i, "shape %s, expected one that broadcasts to %s",
                      ec_shape_text(t->sizes, t->rank, text, sizeof text),
                      ec_shape_text(x->sizes, x->rank, of, sizeof of));
}

static ec_status read_per_token(ec_call *c, ec_affine *a) {
  a->x = *ec_arg_tensor(c, 0);
  a->as = ec_tensor_dtype(&a->x);
  EC_TRY(ec_call_check_dtype(c, 0, EC_SET_REALB));
  EC_TRY(broadcast_to_input(c, 1, &a->x, &a->scale));
  return broadcast_to_input(c, 2, &a->x, &a->zero);
}

ec_status ec_op_quantize_per_token_out(ec_call *c) {
  ec_affine a = {0};
  EC_TRY(read_per_token(c, &a));
  int64_t count = 1;
  /* ec_numel checked a larger product */
  for (size_t d = 0; d + 1 < a.x.rank; d++) count *= a.x.sizes[d];
  for (size_t i = 1; i <= 2; i++)
    if (ec_arg_tensor(c, i)->numel != count)
      return ec_call_fail(c, i, "%" PRId64 " elements, expected one for each of %" PRId64 " rows",
                          ec_arg_tensor(c, i)->numel, count);
  EC_TRY(ec_affine_invert(c, &a));
  return ec_affine_quantize(c, &a, 3, true, 6);
}

ec_status ec_op_dequantize_per_token_out(ec_call *c) {
  ec_affine a = {0};
  EC_TRY(read_per_token(c, &a));
  for (size_t i = 0; i < 3; i++) EC_TRY(ec_call_check_dtype(c, i, EC_SET_REAL));
  EC_TRY(check_out_dtype(c, 6, 7));
  return ec_affine_dequantize(c, &a, 7);
}
