/* aten::convolution_backward: each gradient is a convolution. The gradient of the input has the
 * opposite direction. The gradient of the weight slides the smaller of the two images over the
 * larger one, with channels and batch exchanged, and stride and dilation exchanged. */
#include "kernels/conv/conv.h"
#include "kernels/copy.h"

enum {
  GRAD, INPUT, WEIGHT, BIAS_SIZES, STRIDE, PADDING, DILATION, TRANSPOSED, OUTPUT_PADDING, GROUPS,
  MASK, GRAD_INPUT, GRAD_WEIGHT, GRAD_BIAS
};

/* Resizes a gradient to the shape of its tensor. */
static ec_status resize_like(ec_call *c, size_t i, size_t as) {
  const ec_tensor *t = ec_arg_tensor(c, as);
  EC_TRY(ec_call_check_same_dtype(c, i, INPUT));
  return ec_call_resize(c, i, t->rank, t->sizes);
}

/* Computes the gradient of the input. `f` is the forward convolution, with the gradients of its
 * output as `out`. */
static ec_status input_gradient(ec_call *c, const ec_conv *f) {
  const ec_tensor *out = ec_arg_tensor(c, GRAD_INPUT);
  if (out->numel == 0) return EC_OK;
  ec_conv g = *f;
  g.transposed = !f->transposed;
  g.in_channels = f->out_channels;
  g.out_channels = f->in_channels;
  g.input = f->out;
  g.in_batch = f->out_batch;
  g.in_channel = f->out_channel;
  g.in_group = f->out_channels * f->out_channel;
  g.weight_in = f->weight_out;
  g.weight_out = f->weight_in;
  for (size_t d = 0; d < EC_CONV_AXES; d++) {
    g.axis[d].in = f->axis[d].out;
    g.axis[d].out = f->axis[d].in;
    g.axis[d].in_stride = f->axis[d].out_stride;
  }
  ec_conv_set_output(&g, out);
  return ec_conv_compute(c, &g);
}

/* One of the two images in the gradient of a weight. */
typedef struct image {
  const void *data;
  int64_t batch, channel, channels; /* strides; channels of one group */
} image;

static ec_status weight_gradient(ec_call *c, const ec_conv *f) {
  const ec_tensor *out = ec_arg_tensor(c, GRAD_WEIGHT);
  if (out->numel == 0) return EC_OK;
  image in = {f->input, f->in_batch, f->in_channel, f->in_channels};
  image grad = {f->out, f->out_batch, f->out_channel, f->out_channels};
  image large = f->transposed ? grad : in, small = f->transposed ? in : grad;
  ec_conv g = {.dtype = f->dtype, .axes = f->axes, .groups = f->groups, .batch = large.channels,
               .in_channels = f->batch, .out_channels = small.channels, .input = large.data,
               .in_batch = large.channel, .in_group = large.channels * large.channel,
               .in_channel = large.batch, .weight = small.data, .weight_in = small.batch,
               .weight_out = small.channel, .weight_group = small.channels * small.channel};
  ec_conv_set_output(&g, out);
  g.out_batch = out->strides[1];
  g.out_channel = out->strides[0];
  for (size_t d = 0; d < EC_CONV_AXES; d++) {
    const ec_conv_axis *a = &f->axis[d];
    ec_conv_axis *b = &g.axis[d];
    b->out = a->kernel;
    b->in = f->transposed ? a->out : a->in;
    b->kernel = f->transposed ? a->in : a->out;
    b->in_stride = f->transposed ? a->out_stride : a->in_stride;
    b->weight_stride = f->transposed ? a->in_stride : a->out_stride;
    b->stride = a->dilation;
    b->dilation = a->stride;
    b->padding = a->padding;
  }
  return ec_conv_compute(c, &g);
}

/* Computes the sums of the channels as a convolution with a single 1, whose loops sum in a wide
 * type. */
static ec_status bias_gradient(ec_call *c, const ec_conv *f) {
  const ec_tensor *out = ec_arg_tensor(c, GRAD_BIAS);
  void *one;
  EC_TRY(ec_call_scratch(c, 1, sizeof(double), &one));
  ec_cast_scalar(f->dtype, (ec_scalar){EC_KIND_INT, {.i = 1}}, one);
  ec_conv g = {.dtype = f->dtype, .groups = 1, .batch = out->numel, .in_channels = f->batch,
               .out_channels = 1, .input = f->out, .in_batch = f->out_channel,
               .in_channel = f->out_batch, .weight = one, .out = out->data, .out_batch = 1};
  for (size_t d = 0; d < EC_CONV_AXES; d++)
    g.axis[d] = (ec_conv_axis){.in = f->axis[d].out, .out = 1, .kernel = f->axis[d].out,
                               .stride = 1, .dilation = 1, .in_stride = f->axis[d].out_stride};
  ec_conv_loops_of[f->dtype].reference(&g);
  return EC_OK;
}

static ec_status check_gradient(ec_call *c, const ec_conv *conv) {
  const ec_tensor *grad = ec_arg_tensor(c, GRAD);
  int64_t sizes[EC_CONV_AXES + 2];
  size_t rank = ec_conv_sizes(conv, sizes);
  EC_TRY(ec_call_check_same_dtype(c, GRAD, INPUT));
  bool same = grad->rank == rank;
  for (size_t d = 0; same && d < rank; d++) same = grad->sizes[d] == sizes[d];
  char actual[EC_SHAPE_TEXT], expected[EC_SHAPE_TEXT];
  if (same) return EC_OK;
  return ec_call_fail(c, GRAD, "shape %s, expected %s, the convolution's output",
                      ec_shape_text(grad->sizes, grad->rank, actual, sizeof actual),
                      ec_shape_text(sizes, rank, expected, sizeof expected));
}

ec_status ec_op_convolution_backward_out(ec_call *c) {
  static const ec_conv_args args = {INPUT,    WEIGHT,     STRIDE,         PADDING,
                                    DILATION, TRANSPOSED, OUTPUT_PADDING, GROUPS};
  static ec_status (*const gradients[3])(ec_call *, const ec_conv *) = {
      input_gradient, weight_gradient, bias_gradient};
  ec_conv conv;
  EC_TRY(ec_conv_read(c, &args, &conv));
  EC_TRY(check_gradient(c, &conv));
  const ec_value *mask = c->args[MASK]; /* an unwanted gradient is an empty tensor of any dtype */
  if (mask->count != 3)
    return ec_call_fail(c, MASK, "%u bools, expected 3", (unsigned)mask->count);
  if (mask->as.bools[0]) EC_TRY(resize_like(c, GRAD_INPUT, INPUT));
  if (mask->as.bools[1]) EC_TRY(resize_like(c, GRAD_WEIGHT, WEIGHT));
  if (mask->as.bools[2]) {
    int64_t channels = conv.out_channels * conv.groups;
    EC_TRY(ec_call_check_same_dtype(c, GRAD_BIAS, INPUT));
    EC_TRY(ec_call_resize(c, GRAD_BIAS, 1, &channels));
  }
  ec_conv_set_output(&conv, ec_arg_tensor(c, GRAD));
  for (size_t i = 0; i < 3; i++)
    if (mask->as.bools[i]) EC_TRY(gradients[i](c, &conv));
  return EC_OK;
}
