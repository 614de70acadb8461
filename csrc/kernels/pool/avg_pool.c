/* avg_pool2d and _adaptive_avg_pool2d. */
#include <inttypes.h>
#include <string.h>

#include "core/checked.h"
#include "core/simd.h"
#include "core/template.h"
#include "kernels/pool/pool.h"

#define EC_TEMPLATE "kernels/pool/avg_pool.tmpl.h"
#include "core/foreach/floating.h"
#include "core/dtype/int64.h"
#undef EC_TEMPLATE

typedef void (*avg_fn)(const ec_pool *p, void *scratch);

static const avg_fn planes[EC_DTYPE_COUNT] = {EC_ROWS_FLOATING(avg_planes),
                                              [EC_INT64] = avg_planes_int64};
static const avg_fn channels[EC_DTYPE_COUNT] = {EC_ROWS_FLOATING(avg_channels),
                                                [EC_INT64] = avg_channels_int64};

/* Runs with the tables in place. */
static ec_status run(ec_call *c, ec_pool *p, size_t out) {
  p->out = ec_arg_tensor(c, out)->data;
  ec_pool_strides(ec_arg_tensor(c, out), p->out_stride);
  bool inner = p->in_stride[1] == 1 && p->channels >= 4 && !c->reference;
  if (!inner) {
    planes[p->dtype](p, NULL);
    return EC_OK;
  }
  void *scratch;
  EC_TRY(ec_call_scratch(c, (size_t)p->channels, sizeof(double), &scratch));
  channels[p->dtype](p, scratch);
  return EC_OK;
}

enum { SELF, KERNEL, STRIDE, PADDING, CEIL_MODE, INCLUDE_PAD, DIVISOR, OUT };

ec_status ec_op_avg_pool2d_out(ec_call *c) {
  static const ec_pool_args args = {KERNEL, STRIDE, PADDING, 0, CEIL_MODE, OUT};
  ec_pool p = {.divisor = ec_arg_opt_int(c, DIVISOR, 0)};
  EC_TRY(ec_call_check_dtype(c, SELF, EC_SET_FLOATING_INT64));
  EC_TRY(ec_call_check_same_dtype(c, OUT, SELF));
  if (!ec_arg_is_none(c, DIVISOR) && p.divisor == 0)
    return ec_call_fail(c, DIVISOR, "found 0, expected another number or None");
  EC_TRY(ec_pool_read(c, &args, &p));
  EC_TRY(ec_pool_resize(c, &p, OUT));
  if (ec_arg_tensor(c, OUT)->numel == 0) return EC_OK;
  EC_TRY(ec_pool_windows(c, &p, ec_arg_bool(c, INCLUDE_PAD)));
  return run(c, &p, OUT);
}

enum { A_SELF, A_SIZE, A_OUT };

/* Windows that cover the input evenly: output o of n reads floor(o in / n) to
 * ceil((o + 1) in / n), found by adding up in / n and its remainder. */
static ec_status adaptive_windows(ec_call *c, ec_pool_axis *a) {
  EC_TRY(ec_call_scratch(c, (size_t)a->out, sizeof *a->windows, &a->windows));
  int64_t whole = a->in / a->out, part = a->in % a->out, next = 0, rest = 0;
  for (int64_t o = 0; o < a->out; o++) {
    int64_t first = next;
    rest += part;
    next += whole + (rest >= a->out);
    if (rest >= a->out) rest -= a->out;
    int64_t size = next + (rest > 0) - first;
    a->windows[o] = (ec_window){first, size, 1, size};
  }
  return EC_OK;
}

ec_status ec_op_adaptive_avg_pool2d_out(ec_call *c) {
  ec_pool p = {.divisor = 0};
  ec_ints size;
  EC_TRY(ec_call_check_dtype(c, A_SELF, EC_SET_FLOATING));
  EC_TRY(ec_call_check_same_dtype(c, A_OUT, A_SELF));
  EC_TRY(ec_arg_ints(c, A_SIZE, &size));
  if (size.n != 2 || size.v[0] < 0 || size.v[1] < 0) {
    char text[EC_SHAPE_TEXT];
    return ec_call_fail(c, A_SIZE, "found %s, expected two numbers, not negative",
                        ec_shape_text(size.v, size.n, text, sizeof text));
  }
  EC_TRY(ec_pool_input(c, &p));
  p.axis[0].out = size.v[0];
  p.axis[1].out = size.v[1];
  EC_TRY(ec_pool_resize(c, &p, A_OUT));
  if (ec_arg_tensor(c, A_OUT)->numel == 0) return EC_OK;
  EC_TRY(adaptive_windows(c, &p.axis[0]));
  EC_TRY(adaptive_windows(c, &p.axis[1]));
  return run(c, &p, A_OUT);
}
