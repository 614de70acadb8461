/* Padding with the input's elements: reflected at the border, or the border itself. */
#include <inttypes.h>

#include "core/checked.h"
#include "kernels/resize/resize.h"

static int64_t reflect_index(int64_t at, int64_t size) {
  return at < 0 ? -at : at < size ? at : 2 * (size - 1) - at;
}

static int64_t clamp_index(int64_t at, int64_t size) {
  return ec_max_i64(0, ec_min_i64(at, size - 1));
}

/* Computes the output size. Negative padding crops. */
static ec_status padded_size(ec_call *c, ec_axis *a, const int64_t *pad, bool reflect,
                             int64_t least) {
  if (reflect && (pad[0] >= a->in || pad[1] >= a->in))
    return ec_call_fail(c, 1, "(%" PRId64 ", %" PRId64 "), expected less than the size %" PRId64,
                        pad[0], pad[1], a->in);
  if (!ec_add_i64(a->in, pad[0], &a->out) || !ec_add_i64(a->out, pad[1], &a->out) || a->out < least)
    return ec_call_fail(c, 1, "(%" PRId64 ", %" PRId64 ") leave too little of size %" PRId64,
                        pad[0], pad[1], a->in);
  return EC_OK;
}

/* True if no padded axis is empty. */
static bool has_elements(const ec_resize *r, size_t axes) {
  int64_t left = 0;
  for (size_t d = EC_RESIZE_RANK - axes; d < EC_RESIZE_RANK; d++) left |= r->axis[d].out;
  return left != 0;
}

static ec_status run_pad(ec_call *c, size_t axes, bool reflect) {
  static const int64_t none[2];
  const int64_t *by_axis[EC_RESIZE_RANK];
  ec_resize r = {0};
  ec_ints padding;
  EC_TRY(ec_call_check_dtype(c, 0, EC_SET_REALC));
  EC_TRY(ec_resize_input(c, 2, axes, false, &r));
  EC_TRY(ec_arg_ints(c, 1, &padding));
  if (padding.n != 2 * axes)
    return ec_call_fail(c, 1, "%zu numbers, expected %zu", padding.n, 2 * axes);
  for (size_t d = 2; d < EC_RESIZE_RANK; d++) {
    size_t i = 2 * (EC_RESIZE_RANK - 1 - d); /* the last axis comes first */
    by_axis[d] = i < padding.n ? padding.v + i : none;
    EC_TRY(padded_size(c, &r.axis[d], by_axis[d], reflect, axes == 1));
  }
  if (!has_elements(&r, axes)) return ec_call_fail(c, 1, "no elements are left"); /* eager's rule */
  EC_TRY(ec_resize_output(c, 2, &r));
  for (size_t d = 2; d < EC_RESIZE_RANK; d++) {
    ec_axis *a = &r.axis[d];
    EC_TRY(ec_resize_positions(c, a));
    for (int64_t o = 0; o < a->out; o++)
      a->at[o] = reflect ? reflect_index(o - by_axis[d][0], a->in)
                         : clamp_index(o - by_axis[d][0], a->in);
  }
  ec_resize_move(&r);
  return EC_OK;
}

ec_status ec_op_reflection_pad1d_out(ec_call *c) { return run_pad(c, 1, true); }
ec_status ec_op_reflection_pad2d_out(ec_call *c) { return run_pad(c, 2, true); }
ec_status ec_op_reflection_pad3d_out(ec_call *c) { return run_pad(c, 3, true); }
ec_status ec_op_replication_pad1d_out(ec_call *c) { return run_pad(c, 1, false); }
ec_status ec_op_replication_pad2d_out(ec_call *c) { return run_pad(c, 2, false); }
ec_status ec_op_replication_pad3d_out(ec_call *c) { return run_pad(c, 3, false); }
