/* Convolution: arguments, checks, output size. */
#include "kernels/conv/conv.h"

#include <inttypes.h>

#include "core/checked.h"
#include "kernels/linalg/kept.h"

static ec_status check_tensors(ec_call *c, const ec_conv_args *args) {
  EC_TRY(ec_call_check_dtype(c, args->input, c->op->dtypes));
  EC_TRY(ec_call_check_rank(c, args->input, 3, EC_CONV_AXES + 2));
  size_t rank = ec_arg_tensor(c, args->input)->rank;
  EC_TRY(ec_call_check_rank(c, args->weight, rank, rank));
  return ec_call_check_same_dtype(c, args->weight, args->input);
}

static ec_status check_channels(ec_call *c, const ec_conv_args *args, ec_conv *conv) {
  const ec_tensor *input = ec_arg_tensor(c, args->input), *weight = ec_arg_tensor(c, args->weight);
  int64_t groups = ec_arg_int(c, args->groups), in = input->sizes[1], out = weight->sizes[0];
  if (groups <= 0)
    return ec_call_fail(c, args->groups, "found %" PRId64 ", expected a positive number", groups);
  if (in % groups)
    return ec_call_fail(c, args->groups, "%" PRId64 ", expected a divisor of the %" PRId64
                        " channels of 'input'", groups, in);
  int64_t weight_in = conv->transposed ? out : weight->sizes[1];
  if (weight_in != (conv->transposed ? in : in / groups))
    return ec_call_fail(c, args->weight, "%" PRId64 " input channels, expected %" PRId64
                        " ('input' has %" PRId64 " in %" PRId64 " groups)",
                        weight_in, conv->transposed ? in : in / groups, in, groups);
  if (!conv->transposed && (out < groups || out % groups))
    return ec_call_fail(c, args->weight, "%" PRId64 " output channels, expected a multiple of the %"
                        PRId64 " groups", out, groups);
  conv->groups = groups;
  conv->in_channels = in / groups;
  conv->out_channels = conv->transposed ? weight->sizes[1] : out / groups;
  int64_t channels;
  if (!ec_mul_i64(conv->out_channels, groups, &channels))
    return ec_call_fail(c, args->groups, "%" PRId64 " groups are too many", groups);
  return EC_OK;
}

/* Reads a list with one number per axis, or one for all; every number at least `least`. */
static ec_status read_list(ec_call *c, size_t i, size_t axes, int64_t least,
                           int64_t values[EC_CONV_AXES]) {
  ec_ints list;
  EC_TRY(ec_arg_ints(c, i, &list));
  if (list.n != 1 && list.n != axes)
    return ec_call_fail(c, i, "%zu numbers, expected 1 or %zu", list.n, axes);
  for (size_t d = 0; d < axes; d++) {
    values[d] = list.v[list.n == 1 ? 0 : d];
    if (values[d] >= least) continue;
    char text[EC_SHAPE_TEXT];
    return ec_call_fail(c, i, "found %s, expected %s numbers",
                        ec_shape_text(list.v, list.n, text, sizeof text),
                        least ? "positive" : "non-negative");
  }
  return EC_OK;
}

/* Computes `out` of an axis. Returns false on int64 overflow or without any output. */
static bool output_size(ec_conv_axis *a, bool transposed) {
  int64_t reach, pad, size;
  if (!ec_mul_i64(a->dilation, a->kernel - 1, &reach) || !ec_add_i64(reach, 1, &reach) ||
      !ec_mul_i64(a->padding, 2, &pad))
    return false;
  if (!transposed) {
    int64_t end; /* of the loop over positions */
    if (!ec_add_i64(a->in, pad, &size) || size < reach || !ec_add_i64(size, a->stride, &end))
      return false;
    a->out = (size - reach) / a->stride + 1;
    return true;
  }
  if (!ec_mul_i64(a->in - 1, a->stride, &size) || !ec_add_i64(size, reach, &size) ||
      !ec_add_i64(size, a->output_padding, &size) || !ec_add_i64(size, -pad, &a->out))
    return false;
  return a->out >= 0;
}

static ec_status check_axis(ec_call *c, const ec_conv_args *args, ec_conv_axis *a, bool transposed,
                            size_t axis) {
  if (a->kernel < 1)
    return ec_call_fail(c, args->weight, "kernel of size %" PRId64
                        " in dimension %zu, expected at least 1", a->kernel, axis);
  if (transposed && a->output_padding >= ec_max_i64(a->stride, a->dilation))
    return ec_call_fail(c, args->output_padding, "found %" PRId64
                        ", expected less than stride %" PRId64 " or dilation %" PRId64,
                        a->output_padding, a->stride, a->dilation);
  if (!output_size(a, transposed))
    return ec_call_fail(c, args->input, "size %" PRId64 " in dimension %zu gives no output with "
                        "kernel %" PRId64 ", padding %" PRId64 ", dilation %" PRId64, a->in, axis,
                        a->kernel, a->padding, a->dilation);
  return EC_OK;
}

/* Checks the spatial dimensions, right-aligned in conv->axis. */
static ec_status check_axes(ec_call *c, const ec_conv_args *args, ec_conv *conv) {
  const ec_tensor *input = ec_arg_tensor(c, args->input), *weight = ec_arg_tensor(c, args->weight);
  size_t axes = conv->axes;
  int64_t stride[EC_CONV_AXES], padding[EC_CONV_AXES], dilation[EC_CONV_AXES],
      output_padding[EC_CONV_AXES];
  EC_TRY(read_list(c, args->stride, axes, 1, stride));
  EC_TRY(read_list(c, args->padding, axes, 0, padding));
  EC_TRY(read_list(c, args->dilation, axes, 1, dilation));
  EC_TRY(read_list(c, args->output_padding, axes, 0, output_padding));
  for (size_t i = 0; i < EC_CONV_AXES; i++)
    conv->axis[i] = (ec_conv_axis){.in = 1, .out = 1, .kernel = 1, .stride = 1, .dilation = 1};
  for (size_t i = 0; i < axes; i++) {
    ec_conv_axis *a = &conv->axis[EC_CONV_AXES - axes + i];
    *a = (ec_conv_axis){.in = input->sizes[i + 2], .kernel = weight->sizes[i + 2],
                        .stride = stride[i], .padding = padding[i], .dilation = dilation[i],
                        .output_padding = output_padding[i], .in_stride = input->strides[i + 2],
                        .weight_stride = weight->strides[i + 2]};
    EC_TRY(check_axis(c, args, a, conv->transposed, i + 2));
  }
  return EC_OK;
}

ec_status ec_conv_read(ec_call *c, const ec_conv_args *args, ec_conv *conv) {
  const ec_tensor *input = ec_arg_tensor(c, args->input), *weight = ec_arg_tensor(c, args->weight);
  EC_TRY(check_tensors(c, args));
  *conv = (ec_conv){.dtype = ec_tensor_dtype(input),
                    .transposed = ec_arg_bool(c, args->transposed),
                    .axes = input->rank - 2u,
                    .batch = input->sizes[0],
                    .in_batch = input->strides[0],
                    .in_channel = input->strides[1],
                    .input = input->data,
                    .weight = weight->data};
  EC_TRY(check_channels(c, args, conv));
  EC_TRY(check_axes(c, args, conv));
  bool transposed = conv->transposed;
  conv->in_group = conv->in_channels * conv->in_channel;
  conv->weight_out = weight->strides[transposed ? 1 : 0];
  conv->weight_in = weight->strides[transposed ? 0 : 1];
  conv->weight_group = weight->strides[0] * (transposed ? conv->in_channels : conv->out_channels);
  return EC_OK;
}

size_t ec_conv_sizes(const ec_conv *conv, int64_t *sizes) {
  sizes[0] = conv->batch;
  sizes[1] = conv->in_channels ? conv->out_channels * conv->groups : 0; /* as eager */
  for (size_t d = 0; d < conv->axes; d++)
    sizes[d + 2] = conv->axis[EC_CONV_AXES - conv->axes + d].out;
  return conv->axes + 2;
}

void ec_conv_set_output(ec_conv *conv, const ec_tensor *out) {
  conv->out = out->data;
  conv->out_batch = out->strides[0];
  conv->out_channel = out->strides[1];
  for (size_t d = 0; d < conv->axes; d++)
    conv->axis[EC_CONV_AXES - conv->axes + d].out_stride = out->strides[d + 2];
}

/* Products multiply the padding, too, which a transposed convolution does not: an infinite weight
 * would give NaN there. */
ec_status ec_conv_compute(ec_call *c, const ec_conv *conv) {
  const ec_conv_loops *loops = &ec_conv_loops_of[conv->dtype];
  if (!c->reference && !(conv->transposed && loops->has_nonfinite(conv)))
    return ec_conv_run_fast(c, conv);
  loops->reference(conv);
  return EC_OK;
}

enum { INPUT, WEIGHT, BIAS, STRIDE, PADDING, DILATION, TRANSPOSED, OUTPUT_PADDING, GROUPS, OUT };

static ec_status read_bias(ec_call *c, ec_conv *conv) {
  const ec_tensor *bias = ec_arg_opt_tensor(c, BIAS);
  if (!bias) return EC_OK;
  EC_TRY(ec_call_check_rank(c, BIAS, 1, 1));
  EC_TRY(ec_call_check_same_dtype(c, BIAS, INPUT));
  conv->bias = bias->data;
  int64_t channels = conv->out_channels * conv->groups;
  if (bias->sizes[0] == channels) return EC_OK;
  return ec_call_fail(c, BIAS, "%" PRId64 " elements, expected one for each of %" PRId64
                      " channels", bias->sizes[0], channels);
}

ec_status ec_op_convolution_out(ec_call *c) {
  static const ec_conv_args args = {INPUT,    WEIGHT,     STRIDE,         PADDING,
                                    DILATION, TRANSPOSED, OUTPUT_PADDING, GROUPS};
  ec_conv conv;
  int64_t sizes[EC_CONV_AXES + 2];
  EC_TRY(ec_conv_read(c, &args, &conv));
  EC_TRY(read_bias(c, &conv));
  conv.kept = ec_kept_of(c, WEIGHT);
  size_t rank = ec_conv_sizes(&conv, sizes);
  EC_TRY(ec_call_check_rank(c, OUT, rank, rank));
  EC_TRY(ec_call_check_same_dtype(c, OUT, INPUT));
  EC_TRY(ec_call_resize(c, OUT, rank, sizes));
  if (ec_arg_tensor(c, OUT)->numel == 0) return EC_OK;
  ec_conv_set_output(&conv, ec_arg_tensor(c, OUT));
  return ec_conv_compute(c, &conv);
}
