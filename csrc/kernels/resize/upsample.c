/* upsample_nearest2d and upsample_bilinear2d: a table of source positions for each axis. */
#include <inttypes.h>
#include <math.h>

#include "core/checked.h"
#include "core/template.h"
#include "kernels/call.h"

/* Where an output position reads: `first`, and `second` with this weight. */
typedef struct tap {
  int64_t first, second;
  double weight;
} tap;

typedef struct axis {
  int64_t in, out;
  double factor; /* as given; 0: the ratio of the sizes */
  tap *taps;     /* one for each output */
} axis;

typedef struct upsample {
  const void *in;
  void *to;
  int64_t batch, outer, inner; /* channels: outer of them apart, or inner side by side */
  axis axes[2];
  int64_t in_stride[4], out_stride[4];
  bool align, wide; /* wide: positions are computed in double */
} upsample;

#define EC_TEMPLATE "kernels/resize/upsample.tmpl.h"
#define EC_G float
#include "core/dtype/bfloat16.h"
#include "core/dtype/float16.h"
#include "core/dtype/float32.h"
#include "core/dtype/uint8.h"
#undef EC_G
#define EC_G double
#include "core/dtype/float64.h"
#undef EC_G
#undef EC_TEMPLATE

typedef void (*upsample_fn)(const upsample *u);

static const upsample_fn nearest[EC_DTYPE_COUNT] = {EC_ROWS_FLOATING(nearest),
                                                    [EC_UINT8] = nearest_uint8};
static const upsample_fn bilinear[EC_DTYPE_COUNT] = {EC_ROWS_FLOATING(bilinear),
                                                     [EC_UINT8] = bilinear_uint8};

/* The output sizes from one of the two lists. */
static ec_status read_sizes(ec_call *c, size_t size_arg, size_t factors_arg, upsample *u) {
  ec_ints sizes;
  EC_TRY(ec_arg_ints(c, size_arg, &sizes));
  bool by_size = !ec_arg_is_none(c, size_arg);
  if (by_size == !ec_arg_is_none(c, factors_arg))
    return ec_call_fail(c, size_arg, "expected exactly one of it and '%s'",
                        c->op->args[factors_arg].name);
  size_t given = by_size ? sizes.n : c->args[factors_arg]->count;
  if (given != 2)
    return ec_call_fail(c, by_size ? size_arg : factors_arg, "%zu numbers, expected 2", given);
  for (size_t d = 0; d < 2; d++) {
    axis *a = &u->axes[d];
    if (by_size) {
      a->out = sizes.v[d];
      if (a->out <= 0)
        return ec_call_fail(c, size_arg, "found %" PRId64 ", expected positive sizes", a->out);
      continue;
    }
    a->factor = c->args[factors_arg]->as.doubles[d];
    double out = (double)a->in * a->factor;
    if (!(a->factor > 0) || !(out >= 1) || out >= 0x1p53)
      return ec_call_fail(c, factors_arg, "%g times size %" PRId64 ", expected at least 1 of it",
                          a->factor, a->in);
    a->out = (int64_t)out;
  }
  return EC_OK;
}

static ec_status read_input(ec_call *c, size_t out, upsample *u) {
  const ec_tensor *input = ec_arg_tensor(c, 0);
  EC_TRY(ec_call_check_dtype(c, 0, EC_SET_FLOATING_UINT8));
  EC_TRY(ec_call_check_rank(c, 0, 4, 4));
  EC_TRY(ec_call_check_same_dtype(c, out, 0));
  for (size_t d = 1; d < 4; d++)
    if (input->sizes[d] == 0) {
      char text[EC_SHAPE_TEXT];
      return ec_call_fail(c, 0, "shape %s, expected no 0 except for the batch",
                          ec_shape_text(input->sizes, input->rank, text, sizeof text));
    }
  u->in = input->data;
  u->batch = input->sizes[0];
  u->wide = ec_tensor_dtype(input) == EC_FLOAT64;
  u->axes[0].in = input->sizes[2];
  u->axes[1].in = input->sizes[3];
  return EC_OK;
}

/* Input positions for one output, in the type that eager computes them in. */
static double scale_of(const axis *a, bool wide) {
  double ratio = a->factor > 0 ? 1.0 / a->factor
                 : wide        ? (double)a->in / (double)a->out
                               : (double)((float)a->in / (float)a->out);
  return wide ? ratio : (double)(float)ratio;
}

/* float arithmetic unless `wide`: its rounding decides which of two neighbours is nearest. */
static double multiplied(double a, double b, bool wide) {
  return wide ? a * b : (double)((float)a * (float)b);
}

static tap nearest_tap(const axis *a, int64_t o, double scale) {
  if (a->out == a->in) return (tap){o, o, 0};
  if (a->out == 2 * a->in) return (tap){o / 2, o / 2, 0};
  double at = floor(multiplied((double)o, scale, false));
  int64_t first = at < (double)(a->in - 1) ? (int64_t)at : a->in - 1;
  return (tap){first, first, 0};
}

static tap bilinear_tap(const axis *a, int64_t o, double scale, const upsample *u) {
  if (a->out == a->in) return (tap){o, o, 0};
  double at = u->align ? multiplied(scale, (double)o, u->wide)
                       : multiplied(scale, (double)o + 0.5, u->wide) - 0.5;
  if (!u->wide) at = (double)(float)at;
  if (!(at > 0)) at = 0;
  double whole = floor(at);
  int64_t first = whole < (double)(a->in - 1) ? (int64_t)whole : a->in - 1;
  double weight = at - (double)first;
  return (tap){first, first + (first < a->in - 1), weight > 1 ? 1 : weight};
}

static ec_status make_taps(ec_call *c, upsample *u, bool linear) {
  for (size_t d = 0; d < 2; d++) {
    axis *a = &u->axes[d];
    EC_TRY(ec_call_scratch(c, (size_t)a->out, sizeof *a->taps, &a->taps));
    double scale = scale_of(a, linear && u->wide);
    if (linear && u->align) {
      double gaps = a->out > 1 ? (double)(a->in - 1) / (double)(a->out - 1) : 0;
      scale = u->wide ? gaps : (double)(float)gaps;
    }
    for (int64_t o = 0; o < a->out; o++)
      a->taps[o] = linear ? bilinear_tap(a, o, scale, u) : nearest_tap(a, o, scale);
  }
  return EC_OK;
}

/* Resizes the output, makes the tables and runs the loop. */
static ec_status run(ec_call *c, upsample *u, size_t out_arg, bool linear) {
  const ec_tensor *input = ec_arg_tensor(c, 0);
  ec_tensor *out = ec_arg_tensor(c, out_arg);
  int64_t sizes[4] = {u->batch, input->sizes[1], u->axes[0].out, u->axes[1].out};
  EC_TRY(ec_call_resize(c, out_arg, 4, sizes));
  if (out->numel == 0) return EC_OK;
  EC_TRY(make_taps(c, u, linear));
  u->to = out->data;
  for (size_t d = 0; d < 4; d++) {
    u->in_stride[d] = input->strides[d];
    u->out_stride[d] = out->strides[d];
  }
  bool side_by_side = u->in_stride[1] == 1 && u->out_stride[1] == 1;
  u->inner = side_by_side ? input->sizes[1] : 1;
  u->outer = side_by_side ? 1 : input->sizes[1];
  (linear ? bilinear : nearest)[input->dtype](u);
  return EC_OK;
}

ec_status ec_op_upsample_nearest2d_vec_out(ec_call *c) {
  upsample u = {.align = false};
  EC_TRY(read_input(c, 3, &u));
  EC_TRY(read_sizes(c, 1, 2, &u));
  return run(c, &u, 3, false);
}

ec_status ec_op_upsample_bilinear2d_vec_out(ec_call *c) {
  upsample u = {.align = ec_arg_bool(c, 2)};
  EC_TRY(read_input(c, 4, &u));
  EC_TRY(read_sizes(c, 1, 3, &u));
  return run(c, &u, 4, true);
}
