/* Convolutions of int8: exact sums of integers, scaled once. */
#include <string.h>

#include "../window.h"
#include "operators.h"
#include "quantize.h"

typedef struct conv {
  const evo_call *c;
  const int8_t *x, *weights;
  int64_t batch, channels, out_channels, groups;
  ec_axis axes[2]; /* height, width */
  int64_t row;             /* bytes of an output channel's weights; depthwise: of a position's */
  bool depthwise, transposed;
  const float *scales, *bias;
  int64_t scale_count;     /* transposed with groups: those of a group */
  evo_affine in, out;
  int64_t zero_point; /* of x */
  bool relu;
  int8_t *to;
} conv;

static int64_t weight_at(const conv *k, int64_t oc, int64_t i, int64_t j, int64_t ic) {
  const int64_t position = i * k->axes[1].kernel + j;
  if (k->depthwise) return position * k->row + oc;
  return oc * k->row + position * (k->channels / k->groups) + ic;
}

static int64_t sum_position(const conv *k, int64_t b, int64_t oc, int64_t oy, int64_t ox) {
  const int64_t depth = k->depthwise ? 1 : k->channels / k->groups;
  const int64_t first = oc / (k->out_channels / k->groups) * (k->channels / k->groups);
  const int64_t plane = k->axes[0].in * k->axes[1].in, zero = k->zero_point;
  int64_t sum = 0, y, x;
  for (int64_t i = 0; i < k->axes[0].kernel; i++) {
    if (!ec_axis_pixel(&k->axes[0], oy, i, &y)) continue;
    for (int64_t j = 0; j < k->axes[1].kernel; j++) {
      if (!ec_axis_pixel(&k->axes[1], ox, j, &x)) continue;
      const int8_t *from = k->x + (b * k->channels + first) * plane + y * k->axes[1].in + x;
      const int8_t *w = k->weights + weight_at(k, oc, i, j, 0);
      for (int64_t ic = 0; ic < depth; ic++) sum += (from[ic * plane] - zero) * w[ic];
    }
  }
  return sum;
}

static void run_planes(void *user, size_t begin, size_t end) {
  const conv *k = user;
  for (int64_t n = (int64_t)begin; n < (int64_t)end; n++) {
    const int64_t b = n / k->out_channels, oc = n % k->out_channels;
    const double scale = (double)k->in.scale * (double)k->scales[oc % k->scale_count];
    int8_t *to = k->to + n * k->axes[0].out * k->axes[1].out;
    for (int64_t oy = 0; oy < k->axes[0].out; oy++)
      for (int64_t ox = 0; ox < k->axes[1].out; ox++) {
        const double bias = k->bias ? (double)k->bias[oc] : 0.0;
        const float sum = (float)((double)sum_position(k, b, oc, oy, ox) * scale + bias);
        *to++ = evo_quantize(k->relu ? fmaxf(sum, 0.0f) : sum, &k->out);
      }
  }
}

/* ---- arguments ------------------------------------------------------------------------------- */

static uint32_t read_window(const evo_call *c, size_t at, bool transposed, conv *k) {
  const size_t dilation = transposed ? at + 4 : at + 3;
  int64_t kernel[2], stride[2], padding[2], dilations[2];
  EC_BACKEND_TRY(EC_ARG_INTS(c, at, kernel, "kernel_size", 2, 1, INT32_MAX, true));
  EC_BACKEND_TRY(EC_ARG_INTS(c, at + 1, stride, "stride", 2, 1, INT32_MAX, true));
  EC_BACKEND_TRY(EC_ARG_INTS(c, at + 2, padding, "padding", 2, 0, INT32_MAX, true));
  EC_BACKEND_TRY(EC_ARG_INTS(c, dilation, dilations, "dilation", 2, 1, INT32_MAX, true));
  for (int d = 0; d < 2; d++)
    k->axes[d] = (ec_axis){.kernel = kernel[d], .stride = stride[d], .dilation = dilations[d],
                           .before = padding[d], .after = padding[d], .transposed = transposed};
  k->groups = c->args[dilation + 1].as.i;
  return evo_activation(c, dilation + 2, &k->relu);
}

static uint32_t read_tensors(const evo_call *c, conv *k) {
  const ec_backend_tensor *x, *w;
  EC_BACKEND_TRY(evo_tensor(c, 0, EC_DTYPE_INT8, 4, &x));
  EC_BACKEND_TRY(evo_tensor(c, 3, EC_DTYPE_INT8, 2, &w));
  if (x->rank != 4 || w->rank != (k->depthwise ? 3 : 2))
    return EC_ARG_FAIL(c, "an input of rank %u and weights of rank %u, expected 4 and %d", x->rank,
                       w->rank, k->depthwise ? 3 : 2);
  k->x = x->data;
  k->batch = x->sizes[0];
  k->channels = x->sizes[1];
  for (int d = 0; d < 2; d++) k->axes[d].in = x->sizes[2 + d];
  k->weights = w->data;
  k->row = w->sizes[w->rank - 1];
  const ec_backend_tensor *out = &c->args[k->transposed ? 16 : 15].as.tensor;
  k->out_channels = !k->depthwise ? w->sizes[0] : out->rank == 4 ? out->sizes[1] : 0;
  const int64_t taps = k->axes[0].kernel * k->axes[1].kernel;
  const bool fits =
      k->groups > 0 && k->channels > 0 && k->channels % k->groups == 0 &&
      k->out_channels % k->groups == 0 && k->out_channels > 0 &&
      (k->depthwise ? w->sizes[0] == k->axes[0].kernel && w->sizes[1] == k->axes[1].kernel &&
                          k->groups == k->channels && k->row >= k->out_channels
                    : k->row / taps >= k->channels / k->groups);
  if (fits) return EC_BACKEND_OK;
  return EC_ARG_FAIL(c,
                     "%lld channels in %lld groups do not fit weights with rows of %lld elements",
                     (long long)k->channels, (long long)k->groups, (long long)k->row);
}

static uint32_t read_channels(const evo_call *c, conv *k) {
  const ec_backend_tensor *scales, *bias;
  EC_BACKEND_TRY(evo_tensor(c, 5, EC_DTYPE_FLOAT32, 1, &scales));
  EC_BACKEND_TRY(evo_optional(c, 8, EC_DTYPE_FLOAT32, &bias));
  k->scale_count = k->transposed ? k->out_channels / k->groups : k->out_channels;
  EC_BACKEND_TRY(evo_check_least(c, scales, k->scale_count, "weight_scales"));
  EC_BACKEND_TRY(evo_check_least(c, bias, k->out_channels, "bias"));
  k->scales = scales->data;
  k->bias = bias ? bias->data : NULL;
  return EC_BACKEND_OK;
}

static uint32_t run_conv(const evo_call *c, conv *k) {
  int64_t extra[2] = {0, 0};
  const size_t out = k->transposed ? 16 : 15;
  EC_BACKEND_TRY(read_window(c, 9, k->transposed, k));
  if (k->transposed)
    EC_BACKEND_TRY(EC_ARG_INTS(c, 12, extra, "output_padding", 2, INT32_MIN, INT32_MAX, true));
  EC_BACKEND_TRY(read_tensors(c, k));
  EC_BACKEND_TRY(read_channels(c, k));
  k->in = evo_affine_of(c->args[1].as.d, c->args[2].as.i);
  k->zero_point = c->args[2].as.i;
  if (k->zero_point < INT8_MIN || k->zero_point > INT8_MAX)
    return EC_ARG_FAIL(c, "zero point %lld of an int8 input, expected -128 to 127",
                       (long long)k->zero_point);
  k->out = evo_affine_of(c->args[6].as.d, c->args[7].as.i);
  for (int d = 0; d < 2; d++) {
    ec_axis_fit(&k->axes[d], false, extra[d]);
    if (k->axes[d].out < !k->transposed)
      return EC_ARG_FAIL(c, "an input of %lld by %lld is smaller than the kernel",
                         (long long)k->axes[0].in, (long long)k->axes[1].in);
  }
  const int64_t sizes[] = {k->batch, k->out_channels, k->axes[0].out, k->axes[1].out};
  EC_BACKEND_TRY(evo_output(c, out, EC_DTYPE_INT8, 4, sizes, &k->to));
  c->host->parallel_for(c->call, (size_t)(k->batch * k->out_channels), 1, run_planes, k);
  return EC_BACKEND_OK;
}

uint32_t evo_q8ta_conv2d(const evo_call *c) { return run_conv(c, &(conv){.c = c}); }

uint32_t evo_q8ta_conv2d_dw(const evo_call *c) {
  return run_conv(c, &(conv){.c = c, .depthwise = true});
}

uint32_t evo_q8ta_conv2d_transposed(const evo_call *c) {
  return run_conv(c, &(conv){.c = c, .transposed = true});
}
