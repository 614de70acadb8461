/* Convolutions of int8 and int16: exact sums. A 2-D one is 3-D with a depth of 1. */
#include "../window.h"
#include "dot.h"
#include "operators.h"

enum { DIMS = 3, MAX_CHANNELS = 64 };

typedef struct conv {
  const eto_tensor *input, *weight, *bias, *out;
  const int16_t *x, *w;
  int64_t batch, channels, out_channels, multiplier; /* multiplier: of depthwise */
  ec_axis axes[DIMS];
  int64_t bias_step, block;
} conv;

/* Calls `add` for each tap whose position is within the input, with its pixel and its number. */
static void visit_taps(const conv *k, int64_t batch, const int64_t at[DIMS],
                       void (*add)(const conv *k, int64_t pixel, int64_t tap, void *user),
                       void *user) {
  int64_t z, y, x, tap = 0;
  for (int64_t i = 0; i < k->axes[0].kernel; i++) {
    const bool in_z = ec_axis_pixel(&k->axes[0], at[0], i, &z);
    for (int64_t j = 0; j < k->axes[1].kernel; j++) {
      const bool in_y = in_z && ec_axis_pixel(&k->axes[1], at[1], j, &y);
      for (int64_t l = 0; l < k->axes[2].kernel; l++, tap++)
        if (in_y && ec_axis_pixel(&k->axes[2], at[2], l, &x))
          add(k, ((batch * k->axes[0].in + z) * k->axes[1].in + y) * k->axes[2].in + x, tap, user);
    }
  }
}

/* Sums of some output channels at one position. */
typedef struct sums {
  int64_t first, count;
  int64_t total[MAX_CHANNELS];
} sums;

static void add_dense(const conv *k, int64_t pixel, int64_t tap, void *user) {
  sums *s = user;
  const int64_t taps = k->axes[0].kernel * k->axes[1].kernel * k->axes[2].kernel;
  const int16_t *x = k->x + pixel * k->channels;
  for (int64_t i = 0; i < s->count; i++)
    s->total[i] += eto_dot(x, k->w + ((s->first + i) * taps + tap) * k->channels, k->channels,
                           k->block);
}

static void add_depthwise(const conv *k, int64_t pixel, int64_t tap, void *user) {
  sums *s = user;
  const int16_t *x = k->x + pixel * k->channels, *w = k->w + tap * k->out_channels + s->first;
  if (k->multiplier == 1)
    for (int64_t i = 0; i < s->count; i++) s->total[i] += x[s->first + i] * w[i];
  else
    for (int64_t i = 0; i < s->count; i++)
      s->total[i] += x[(s->first + i) / k->multiplier] * w[i];
}

static void run_position(const conv *k, int64_t batch, const int64_t at[DIMS]) {
  const int64_t position =
      ((batch * k->axes[0].out + at[0]) * k->axes[1].out + at[1]) * k->axes[2].out + at[2];
  sums s;
  for (s.first = 0; s.first < k->out_channels; s.first += MAX_CHANNELS) {
    const int64_t left = k->out_channels - s.first;
    s.count = left < MAX_CHANNELS ? left : MAX_CHANNELS;
    for (int64_t i = 0; i < s.count; i++)
      eto_load(k->bias, (s.first + i) * k->bias_step, 1, false, &s.total[i]);
    visit_taps(k, batch, at, k->multiplier ? add_depthwise : add_dense, &s);
    eto_store(k->out, position * k->out_channels + s.first, s.count, s.total);
  }
}

static void run_lines(void *user, size_t begin, size_t end) {
  const conv *k = user;
  for (int64_t line = (int64_t)begin; line < (int64_t)end; line++) {
    int64_t at[DIMS] = {line / k->axes[1].out % k->axes[0].out, line % k->axes[1].out, 0};
    for (; at[2] < k->axes[2].out; at[2]++)
      run_position(k, line / k->axes[1].out / k->axes[0].out, at);
  }
}

/* ---- arguments ------------------------------------------------------------------------------- */

/* Reads x, weight and bias, of `dims` spatial dimensions; the last ones of DIMS. */
static uint32_t read_tensors(const eto_call *c, int dims, conv *k) {
  EC_BACKEND_TRY(EC_ARG_TENSOR(c, 0, "input", ETO_INTEGERS, dims + 2, &k->input));
  EC_BACKEND_TRY(EC_ARG_TENSOR(c, 1, "weight", ETO_INTEGERS, dims + 2, &k->weight));
  EC_BACKEND_TRY(EC_ARG_TENSOR(c, 2, "bias", ETO_INTEGERS, 1, &k->bias));
  if (!ec_arg_count(k->input) || !ec_arg_count(k->weight) || !ec_arg_count(k->bias))
    return EC_ARG_FAIL(c, "an input of a convolution has no elements");
  k->batch = k->input->sizes[0];
  k->channels = k->input->sizes[dims + 1];
  for (int d = 0; d < DIMS; d++)
    k->axes[d] = (ec_axis){.in = d < DIMS - dims ? 1 : k->input->sizes[d + 1 + dims - DIMS],
                           .out = 1, .kernel = 1, .stride = 1, .dilation = 1};
  k->block = eto_dot_block(k->input, k->weight);
  return EC_BACKEND_OK;
}

/* Reads the weight's sizes: O, kernel, I; or kernel, C, M of a depthwise convolution. */
static uint32_t read_weight(const eto_call *c, int dims, bool depthwise, conv *k) {
  const int64_t *sizes = k->weight->sizes;
  const int64_t channels = sizes[depthwise ? dims : dims + 1];
  for (int i = 0; i < dims; i++) k->axes[DIMS - dims + i].kernel = sizes[i + !depthwise];
  k->multiplier = depthwise ? sizes[dims + 1] : 0;
  k->out_channels = depthwise ? channels * k->multiplier : sizes[0];
  k->bias_step = ec_arg_count(k->bias) > 1;
  if (channels != k->channels)
    return EC_ARG_FAIL(c, "'weight' has %lld channels, the input %lld", (long long)channels,
                       (long long)k->channels);
  if (k->bias_step && ec_arg_count(k->bias) != k->out_channels)
    return EC_ARG_FAIL(c, "'bias' has %lld elements, expected 1 or %lld",
                       (long long)ec_arg_count(k->bias), (long long)k->out_channels);
  return EC_BACKEND_OK;
}

/* Sets the axes: pads are [before, after] of each dimension. */
static uint32_t set_axes(const eto_call *c, int dims, const int64_t *pads, const int64_t *strides,
                         const int64_t *dilations, conv *k) {
  for (int i = 0; i < dims; i++) {
    ec_axis *a = &k->axes[DIMS - dims + i];
    a->transposed = !dilations; /* it adds its padding to the output */
    a->before = dilations ? pads[2 * i] : -pads[2 * i];
    a->after = dilations ? pads[2 * i + 1] : -pads[2 * i + 1];
    a->stride = strides[i];
    if (dilations) a->dilation = dilations[i];
    ec_axis_fit(a, false, 0);
    if (a->out < 1)
      return EC_ARG_FAIL(c, "a kernel of %lld elements does not fit into dimension %d",
                         (long long)((a->kernel - 1) * a->dilation + 1), i + 1);
  }
  return EC_BACKEND_OK;
}

static uint32_t run_conv(const eto_call *c, int dims, size_t out, conv *k) {
  int64_t sizes[DIMS + 2] = {k->batch};
  for (int i = 0; i < dims; i++) sizes[1 + i] = k->axes[DIMS - dims + i].out;
  sizes[dims + 1] = k->out_channels;
  EC_BACKEND_TRY(EC_ARG_OUTPUT(c, out, ETO_INTEGERS, (size_t)dims + 2, sizes, &k->out));
  EC_BACKEND_TRY(eto_check_sums(c, k->input, k->out));
  EC_BACKEND_TRY(eto_centre(c, k->input, 3, "input", &k->x));
  EC_BACKEND_TRY(eto_centre(c, k->weight, 4, "weight", &k->w));
  const size_t lines = (size_t)(k->batch * k->axes[0].out * k->axes[1].out);
  c->host->parallel_for(c->call, lines, 1, run_lines, k);
  return EC_BACKEND_OK;
}

static uint32_t apply_conv(const eto_call *c, int dims, bool depthwise) {
  conv k = {0};
  int64_t pads[2 * DIMS], strides[DIMS], dilations[DIMS];
  EC_BACKEND_TRY(read_tensors(c, dims, &k));
  EC_BACKEND_TRY(read_weight(c, dims, depthwise, &k));
  EC_BACKEND_TRY(eto_ints(c, 5, "pad", 0, 2 * (size_t)dims, pads));
  EC_BACKEND_TRY(eto_ints(c, 6, "stride", 1, (size_t)dims, strides));
  EC_BACKEND_TRY(eto_ints(c, 7, "dilation", 1, (size_t)dims, dilations));
  EC_BACKEND_TRY(set_axes(c, dims, pads, strides, dilations, &k));
  return run_conv(c, dims, 8, &k);
}

uint32_t eto_conv2d(const eto_call *c) { return apply_conv(c, 2, false); }

uint32_t eto_conv3d(const eto_call *c) { return apply_conv(c, 3, false); }

uint32_t eto_depthwise_conv2d(const eto_call *c) { return apply_conv(c, 2, true); }

uint32_t eto_transpose_conv2d(const eto_call *c) {
  conv k = {0};
  int64_t pads[4], strides[2];
  EC_BACKEND_TRY(read_tensors(c, 2, &k));
  EC_BACKEND_TRY(read_weight(c, 2, false, &k));
  EC_BACKEND_TRY(eto_ints(c, 5, "out_pad", -ETO_MAX_EXTENT, 4, pads));
  EC_BACKEND_TRY(eto_ints(c, 6, "stride", 1, 2, strides));
  EC_BACKEND_TRY(set_axes(c, 2, pads, strides, NULL, &k));
  return run_conv(c, 2, 7, &k);
}
