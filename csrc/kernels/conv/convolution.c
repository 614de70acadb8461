/* aten::convolution: arguments, checks, output size. */
#include "kernels/conv/conv.h"

#include <inttypes.h>

#include "core/checked.h"

enum { INPUT, WEIGHT, BIAS, STRIDE, PADDING, DILATION, TRANSPOSED, OUTPUT_PADDING, GROUPS, OUT };

static ec_status check_tensors(ec_call *c) {
  EC_TRY(ec_call_check_dtype(c, INPUT, EC_SET_CLASSIC));
  EC_TRY(ec_call_check_rank(c, INPUT, 3, 5));
  size_t rank = ec_arg_tensor(c, INPUT)->rank;
  EC_TRY(ec_call_check_rank(c, WEIGHT, rank, rank));
  EC_TRY(ec_call_check_rank(c, OUT, rank, rank));
  EC_TRY(ec_call_check_same_dtype(c, WEIGHT, INPUT));
  EC_TRY(ec_call_check_same_dtype(c, OUT, INPUT));
  if (ec_arg_is_none(c, BIAS)) return EC_OK;
  EC_TRY(ec_call_check_rank(c, BIAS, 1, 1));
  return ec_call_check_same_dtype(c, BIAS, INPUT);
}

static ec_status check_channels(ec_call *c, ec_conv *conv) {
  const ec_tensor *input = ec_arg_tensor(c, INPUT), *weight = ec_arg_tensor(c, WEIGHT);
  int64_t groups = ec_arg_int(c, GROUPS), in = input->sizes[1], out = weight->sizes[0];
  if (groups <= 0)
    return ec_call_fail(c, GROUPS, "found %" PRId64 ", expected a positive number", groups);
  if (in % groups)
    return ec_call_fail(c, GROUPS, "%" PRId64 ", expected a divisor of the %" PRId64
                        " channels of 'input'", groups, in);
  int64_t weight_in = conv->transposed ? out : weight->sizes[1];
  if (weight_in != (conv->transposed ? in : in / groups))
    return ec_call_fail(c, WEIGHT, "takes %" PRId64 " channels, expected %" PRId64
                        " ('input' has %" PRId64 " in %" PRId64 " groups)",
                        weight_in, conv->transposed ? in : in / groups, in, groups);
  if (!conv->transposed && (out < groups || out % groups))
    return ec_call_fail(c, WEIGHT, "gives %" PRId64 " channels, expected a multiple of the %" PRId64
                        " groups", out, groups);
  conv->groups = groups;
  conv->in_channels = in / groups;
  conv->out_channels = conv->transposed ? weight->sizes[1] : out / groups;
  int64_t channels;
  if (!ec_mul_i64(conv->out_channels, groups, &channels))
    return ec_call_fail(c, GROUPS, "%" PRId64 " groups are too many", groups);
  const ec_tensor *bias = ec_arg_opt_tensor(c, BIAS);
  if (bias && bias->sizes[0] != channels)
    return ec_call_fail(c, BIAS, "%" PRId64 " elements, expected one for each of %" PRId64
                        " channels", bias->sizes[0], channels);
  return EC_OK;
}

/* A list of one number for each axis, or of one for all; every number at least `least`. */
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

/* Fills `out` of an axis; false where a number leaves int64 or nothing is left of the input. */
static bool output_size(ec_conv_axis *a, bool transposed) {
  int64_t reach, pad, size;
  if (!ec_mul_i64(a->dilation, a->kernel - 1, &reach) || !ec_add_i64(reach, 1, &reach) ||
      !ec_mul_i64(a->padding, 2, &pad))
    return false;
  if (!transposed) {
    int64_t behind; /* where loops stop */
    if (!ec_add_i64(a->in, pad, &size) || size < reach || !ec_add_i64(size, a->stride, &behind))
      return false;
    a->out = (size - reach) / a->stride + 1;
    return true;
  }
  if (!ec_mul_i64(a->in - 1, a->stride, &size) || !ec_add_i64(size, reach, &size) ||
      !ec_add_i64(size, a->output_padding, &size) || !ec_add_i64(size, -pad, &a->out))
    return false;
  return a->out > 0;
}

static ec_status check_axis(ec_call *c, ec_conv_axis *a, bool transposed, size_t axis) {
  if (a->kernel < 1)
    return ec_call_fail(c, WEIGHT, "kernel of size %" PRId64
                        " in dimension %zu, expected at least 1", a->kernel, axis);
  if (transposed && a->output_padding >= ec_max_i64(a->stride, a->dilation))
    return ec_call_fail(c, OUTPUT_PADDING, "found %" PRId64
                        ", expected less than stride %" PRId64 " or dilation %" PRId64,
                        a->output_padding, a->stride, a->dilation);
  if (!output_size(a, transposed))
    return ec_call_fail(c, INPUT, "size %" PRId64 " in dimension %zu gives no output with kernel %"
                        PRId64 ", padding %" PRId64 ", dilation %" PRId64, a->in, axis, a->kernel,
                        a->padding, a->dilation);
  return EC_OK;
}

/* The spatial dimensions, right-aligned in conv->axis. */
static ec_status check_axes(ec_call *c, ec_conv *conv) {
  const ec_tensor *input = ec_arg_tensor(c, INPUT), *weight = ec_arg_tensor(c, WEIGHT);
  size_t axes = input->rank - 2u;
  int64_t stride[EC_CONV_AXES], padding[EC_CONV_AXES], dilation[EC_CONV_AXES],
      output_padding[EC_CONV_AXES];
  EC_TRY(read_list(c, STRIDE, axes, 1, stride));
  EC_TRY(read_list(c, PADDING, axes, 0, padding));
  EC_TRY(read_list(c, DILATION, axes, 1, dilation));
  EC_TRY(read_list(c, OUTPUT_PADDING, axes, 0, output_padding));
  for (size_t i = 0; i < EC_CONV_AXES; i++)
    conv->axis[i] = (ec_conv_axis){.in = 1, .out = 1, .kernel = 1, .stride = 1, .dilation = 1};
  for (size_t i = 0; i < axes; i++) {
    ec_conv_axis *a = &conv->axis[EC_CONV_AXES - axes + i];
    *a = (ec_conv_axis){.in = input->sizes[i + 2], .kernel = weight->sizes[i + 2],
                        .stride = stride[i], .padding = padding[i], .dilation = dilation[i],
                        .output_padding = output_padding[i], .in_stride = input->strides[i + 2],
                        .weight_stride = weight->strides[i + 2]};
    EC_TRY(check_axis(c, a, conv->transposed, i + 2));
  }
  return EC_OK;
}

static void take_pointers(ec_call *c, ec_conv *conv) {
  const ec_tensor *input = ec_arg_tensor(c, INPUT), *weight = ec_arg_tensor(c, WEIGHT);
  const ec_tensor *bias = ec_arg_opt_tensor(c, BIAS);
  ec_tensor *out = ec_arg_tensor(c, OUT);
  conv->dtype = ec_tensor_dtype(input);
  conv->batch = input->sizes[0];
  conv->in_batch = input->strides[0];
  conv->in_channel = input->strides[1];
  conv->out_batch = out->strides[0];
  conv->out_channel = out->strides[1];
  conv->weight_out = weight->strides[conv->transposed ? 1 : 0];
  conv->weight_in = weight->strides[conv->transposed ? 0 : 1];
  conv->weight_group =
      weight->strides[0] * (conv->transposed ? conv->in_channels : conv->out_channels);
  conv->input = input->data;
  conv->weight = weight->data;
  conv->bias = bias ? bias->data : NULL;
  conv->out = out->data;
  for (size_t d = 2; d < out->rank; d++)
    conv->axis[EC_CONV_AXES - out->rank + d].out_stride = out->strides[d];
}

ec_status ec_op_convolution_out(ec_call *c) {
  ec_conv conv = {.transposed = ec_arg_bool(c, TRANSPOSED)};
  EC_TRY(check_tensors(c));
  EC_TRY(check_channels(c, &conv));
  EC_TRY(check_axes(c, &conv));
  size_t rank = ec_arg_tensor(c, INPUT)->rank;
  int64_t sizes[EC_MAX_RANK] = {ec_arg_tensor(c, INPUT)->sizes[0],
                                conv.out_channels * conv.groups};
  for (size_t d = 2; d < rank; d++) sizes[d] = conv.axis[EC_CONV_AXES - rank + d].out;
  EC_TRY(ec_call_resize(c, OUT, rank, sizes));
  if (ec_arg_tensor(c, OUT)->numel == 0) return EC_OK;
  take_pointers(c, &conv);
  if (c->reference) {
    ec_conv_loops_of[conv.dtype].reference(&conv);
    return EC_OK;
  }
  return ec_conv_run_fast(c, &conv);
}
