/* Upsampling: nearest neighbours, and filters with and without antialiasing. */
#include <inttypes.h>
#include <math.h>

#include "core/checked.h"
#include "kernels/resize/resize.h"

static ec_axis *axis_of(ec_resize *r, size_t i) { return &r->axis[EC_RESIZE_RANK - r->axes + i]; }

/* Checks that argument `arg` has one number per axis. */
static ec_status check_count(ec_call *c, size_t arg, size_t actual, const ec_resize *r) {
  if (actual == r->axes) return EC_OK;
  return ec_call_fail(c, arg, "%zu numbers, expected %zu", actual, r->axes);
}

static ec_status set_sizes(ec_call *c, size_t arg, ec_resize *r) {
  ec_ints sizes;
  EC_TRY(ec_arg_ints(c, arg, &sizes));
  EC_TRY(check_count(c, arg, sizes.n, r));
  for (size_t i = 0; i < sizes.n; i++) {
    axis_of(r, i)->out = sizes.v[i];
    if (sizes.v[i] <= 0)
      return ec_call_fail(c, arg, "found %" PRId64 ", expected positive sizes", sizes.v[i]);
  }
  return EC_OK;
}

/* Reads the `vec` forms: sizes, or factors for all axes. */
static ec_status sizes_or_factors(ec_call *c, size_t size_arg, size_t factors_arg, ec_resize *r) {
  bool by_size = !ec_arg_is_none(c, size_arg);
  if (by_size == !ec_arg_is_none(c, factors_arg))
    return ec_call_fail(c, size_arg, "expected exactly one of it and '%s'",
                        c->op->args[factors_arg].name);
  if (by_size) return set_sizes(c, size_arg, r);
  EC_TRY(check_count(c, factors_arg, c->args[factors_arg]->count, r));
  for (size_t i = 0; i < r->axes; i++) {
    ec_axis *a = axis_of(r, i);
    a->factor = c->args[factors_arg]->as.doubles[i];
    double out = (double)a->in * a->factor;
    if (!(a->factor > 0) || !(out >= 1) || out >= 0x1p53)
      return ec_call_fail(c, factors_arg, "%g times size %" PRId64 ", expected at least 1 of it",
                          a->factor, a->in);
    a->out = (int64_t)out;
  }
  return EC_OK;
}

/* Reads the other forms: sizes, and factors that only affect the read positions. Eager ignores
 * negative ones. */
static ec_status sizes_and_factors(ec_call *c, size_t factors_arg, ec_resize *r) {
  for (size_t i = 0; i < r->axes; i++) {
    double factor = ec_arg_opt_double(c, factors_arg + i, 0);
    axis_of(r, i)->factor = factor > 0 ? factor : 0;
  }
  return set_sizes(c, 1, r);
}

/* Computes positions, in float32 for every dtype. `even`: equal and doubled sizes ignore the
 * factor. */
static void nearest_positions(ec_axis *a, bool exact, bool even) {
  float ratio = (float)a->in / (float)a->out;
  float scale = a->factor > 0 ? (float)(1.0 / a->factor) : ratio;
  for (int64_t o = 0; o < a->out; o++) {
    float at = floorf(exact ? ((float)o + 0.5f) * scale : (float)o * scale);
    a->at[o] = at < (float)(a->in - 1) ? (int64_t)at : a->in - 1;
    if (even && a->out == a->in) a->at[o] = o;
    if (even && a->out == 2 * a->in) a->at[o] = o / 2;
  }
}

static ec_status upsample_nearest(ec_call *c, size_t out, ec_resize *r, bool exact) {
  EC_TRY(ec_resize_output(c, out, r));
  for (size_t d = 2; d < EC_RESIZE_RANK; d++) {
    EC_TRY(ec_resize_positions(c, &r->axis[d]));
    nearest_positions(&r->axis[d], exact, !exact && r->axes == 2); /* as eager in 2-d */
  }
  ec_resize_move(r);
  return EC_OK;
}

static ec_status nearest_by_size(ec_call *c, size_t axes, bool exact) {
  ec_resize r = {0};
  EC_TRY(ec_call_check_dtype(c, 0, EC_SET_FLOATING_UINT8));
  EC_TRY(ec_resize_input(c, 2 + axes, axes, true, &r));
  EC_TRY(sizes_and_factors(c, 2, &r));
  return upsample_nearest(c, 2 + axes, &r, exact);
}

ec_status ec_op_upsample_nearest2d_vec_out(ec_call *c) {
  ec_resize r = {0};
  EC_TRY(ec_call_check_dtype(c, 0, EC_SET_FLOATING_UINT8));
  EC_TRY(ec_resize_input(c, 3, 2, true, &r));
  EC_TRY(sizes_or_factors(c, 1, 2, &r));
  return upsample_nearest(c, 3, &r, false);
}

ec_status ec_op_upsample_nearest1d_out(ec_call *c) { return nearest_by_size(c, 1, false); }
ec_status ec_op_upsample_nearest2d_out(ec_call *c) { return nearest_by_size(c, 2, false); }
ec_status ec_op_upsample_nearest3d_out(ec_call *c) { return nearest_by_size(c, 3, false); }
ec_status ec_op_upsample_nearest_exact1d_out(ec_call *c) { return nearest_by_size(c, 1, true); }
ec_status ec_op_upsample_nearest_exact2d_out(ec_call *c) { return nearest_by_size(c, 2, true); }
ec_status ec_op_upsample_nearest_exact3d_out(ec_call *c) { return nearest_by_size(c, 3, true); }

static ec_status upsample_filtered(ec_call *c, size_t out, ec_resize *r, ec_filter filter,
                                   bool antialias) {
  bool align = ec_arg_bool(c, 2);
  EC_TRY(ec_resize_output(c, out, r));
  for (size_t i = 0; i < r->axes; i++)
    EC_TRY(ec_resize_weights(c, axis_of(r, i), r->in.dtype, align, filter, antialias));
  return ec_resize_weigh(c, r);
}

static ec_status filtered_by_size(ec_call *c, size_t axes, ec_dtype_set dtypes, ec_filter filter) {
  ec_resize r = {0};
  EC_TRY(ec_call_check_dtype(c, 0, dtypes));
  EC_TRY(ec_resize_input(c, 3 + axes, axes, true, &r));
  EC_TRY(sizes_and_factors(c, 3, &r));
  return upsample_filtered(c, 3 + axes, &r, filter, false);
}

/* For equal sizes eager copies, in any dtype. */
static ec_status upsample_antialiased(ec_call *c, ec_filter filter) {
  ec_resize r = {0};
  EC_TRY(ec_resize_input(c, 5, 2, true, &r));
  EC_TRY(sizes_and_factors(c, 3, &r));
  if (r.axis[3].in != r.axis[3].out || r.axis[4].in != r.axis[4].out) {
    EC_TRY(ec_call_check_dtype(c, 0, EC_SET_WIDE_UINT8));
    return upsample_filtered(c, 5, &r, filter, true);
  }
  EC_TRY(ec_resize_output(c, 5, &r));
  ec_copy_view(c, &r.to, &r.in);
  return EC_OK;
}

ec_status ec_op_upsample_bilinear2d_vec_out(ec_call *c) {
  ec_resize r = {0};
  EC_TRY(ec_call_check_dtype(c, 0, EC_SET_FLOATING_UINT8));
  EC_TRY(ec_resize_input(c, 4, 2, true, &r));
  EC_TRY(sizes_or_factors(c, 1, 3, &r));
  return upsample_filtered(c, 4, &r, EC_LINEAR, false);
}

ec_status ec_op_upsample_linear1d_out(ec_call *c) {
  return filtered_by_size(c, 1, EC_SET_FLOATING, EC_LINEAR);
}

ec_status ec_op_upsample_bilinear2d_out(ec_call *c) {
  return filtered_by_size(c, 2, EC_SET_FLOATING_UINT8, EC_LINEAR);
}

ec_status ec_op_upsample_trilinear3d_out(ec_call *c) {
  return filtered_by_size(c, 3, EC_SET_FLOATING, EC_LINEAR);
}

ec_status ec_op_upsample_bicubic2d_out(ec_call *c) {
  return filtered_by_size(c, 2, EC_SET_FLOATING_UINT8, EC_CUBIC);
}

ec_status ec_op_upsample_bilinear2d_aa_out(ec_call *c) {
  return upsample_antialiased(c, EC_LINEAR);
}
ec_status ec_op_upsample_bicubic2d_aa_out(ec_call *c) { return upsample_antialiased(c, EC_CUBIC); }
ec_status ec_op_upsample_lanczos2d_aa_out(ec_call *c) {
  return upsample_antialiased(c, EC_LANCZOS);
}

/* Gradients: argument 0 has the upsampled size (1); the input's size (2) is that of the output.
 * Every axis is set up as in the upsampling, then transposed. */
static ec_status read_backward(ec_call *c, size_t factors, size_t out, ec_resize *r) {
  const ec_tensor *grad = ec_arg_tensor(c, 0);
  ec_ints sizes;
  EC_TRY(ec_call_check_dtype(c, 0, EC_SET_FLOATING));
  EC_TRY(ec_resize_input(c, out, 2, true, r));
  EC_TRY(sizes_and_factors(c, factors, r));
  EC_TRY(ec_arg_ints(c, 2, &sizes));
  char text[EC_SHAPE_TEXT];
  if (sizes.n != 4 || sizes.v[2] <= 0 || sizes.v[3] <= 0)
    return ec_call_fail(c, 2, "found %s, expected batch, channels and two positive sizes",
                        ec_shape_text(sizes.v, sizes.n, text, sizeof text));
  bool same = grad->sizes[0] == sizes.v[0] && grad->sizes[1] == sizes.v[1];
  for (size_t i = 0; i < 2; i++) {
    same = same && grad->sizes[2 + i] == axis_of(r, i)->out;
    axis_of(r, i)->in = sizes.v[2 + i];
  }
  if (same) return ec_call_resize(c, out, 4, sizes.v);
  return ec_call_fail(c, 0, "shape %s, expected that of the upsampled input",
                      ec_shape_text(grad->sizes, grad->rank, text, sizeof text));
}

static ec_status upsample_backward(ec_call *c, size_t out, ec_resize *r) {
  if (ec_arg_tensor(c, out)->numel == 0) return EC_OK;
  for (size_t i = 0; i < r->axes; i++) EC_TRY(ec_resize_transpose(c, axis_of(r, i)));
  EC_TRY(ec_resize_output(c, out, r));
  return ec_resize_weigh(c, r);
}

ec_status ec_op_upsample_nearest2d_backward_grad_input(ec_call *c) {
  ec_resize r = {0};
  EC_TRY(read_backward(c, 3, 5, &r));
  for (size_t i = 0; i < r.axes; i++) {
    ec_axis *a = axis_of(&r, i);
    EC_TRY(ec_resize_positions(c, a));
    EC_TRY(ec_call_scratch(c, (size_t)a->out, sizeof *a->weights, &a->weights));
    EC_TRY(ec_call_scratch(c, (size_t)a->out, sizeof *a->counts, &a->counts));
    nearest_positions(a, false, true);
    for (int64_t o = 0; o < a->out; o++) a->weights[o] = (double)(a->counts[o] = 1);
  }
  return upsample_backward(c, 5, &r);
}

ec_status ec_op_upsample_bilinear2d_backward_grad_input(ec_call *c) {
  ec_resize r = {0};
  EC_TRY(read_backward(c, 4, 6, &r));
  for (size_t i = 0; i < r.axes; i++)
    EC_TRY(ec_resize_weights(c, axis_of(&r, i), r.in.dtype, ec_arg_bool(c, 3), EC_LINEAR, false));
  return upsample_backward(c, 6, &r);
}
