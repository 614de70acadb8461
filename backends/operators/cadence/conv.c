/* Convolutions: scalar products of patches and filters. */
#include "conv.h"

#include "dot.h"
#include "window.h"

enum { TILE = 32 /* channels that are stored at once */ };

static const cad_places conv_steps = {.stride = 3, .padding = 4, .dilation = 5};

typedef struct conv {
  cad_window w;
  const cad_tensor *in, *weight, *out;
  float *filters, *bias; /* [out_channels, taps * group_in] */
  cad_patches patches;
  int64_t by_out, by_tap, by_in; /* strides of the weights */
  float weight_scale; /* of float convolutions with int8 weights; 0: none */
  bool shares; /* all groups have the same out channels of the weights (transposed) */
  cad_finish finish;
} conv;

/* Computes the channels of a group for one patch. */
static void conv_group(const conv *p, int64_t group, const float *patch, int64_t at,
                       int64_t step) {
  const int64_t count = p->w.out_channels / p->w.groups, length = p->w.taps * p->w.group_in;
  float values[TILE];
  for (int64_t first = 0; first < count; first += TILE) {
    const int64_t n = count - first < TILE ? count - first : TILE;
    for (int64_t k = 0; k < n; k++) {
      const int64_t o = group * count + first + k;
      const double sum = cad_dot(patch, p->filters + o * length, length);
      values[k] = cad_finish_sum(&p->finish, sum + (p->bias ? (double)p->bias[o] : 0));
    }
    cad_store(p->out, at + (group * count + first) * step, step, n, values);
  }
}

static void conv_pixels(void *user, size_t begin, size_t end) {
  const conv *p = user;
  for (int64_t i = (int64_t)begin; i < (int64_t)end; i++) {
    int64_t step;
    const int64_t pixel = p->patches.first + i, at = cad_window_at(&p->w, pixel, &step);
    float *patch = p->patches.memory + i * p->patches.length;
    for (int64_t group = 0; group < p->w.groups; group++) {
      cad_window_patch(&p->w, pixel, group, patch);
      conv_group(p, group, patch, at, step);
    }
  }
}

/* Copies the weights into filters of the order of patches. */
static uint32_t conv_filters(const cad_call *c, float zero, conv *p) {
  const cad_window *w = &p->w;
  const int64_t length = w->taps * w->group_in, count = w->out_channels / w->groups;
  float *from;
  EC_BACKEND_TRY(cad_floats(c, p->weight, zero, &from));
  EC_BACKEND_TRY(EC_ARG_SCRATCH(c, w->out_channels * length, sizeof(float), &p->filters));
  for (int64_t o = 0; o < w->out_channels; o++) {
    float *filter = p->filters + o * length;
    const float *base = from + (p->shares ? o % count * p->by_out +
                                                o / count * w->group_in * p->by_in
                                          : o * p->by_out);
    for (int64_t tap = 0; tap < w->taps; tap++)
      for (int64_t i = 0; i < w->group_in; i++)
        filter[w->taps_first ? tap * w->group_in + i : i * w->taps + tap] =
            base[tap * p->by_tap + i * p->by_in] * (p->weight_scale != 0 ? p->weight_scale : 1);
  }
  return EC_BACKEND_OK;
}

/* Checks the groups, where the weights have `in` channels (of a group, unless shared). */
static uint32_t conv_groups(const cad_call *c, int64_t groups, int64_t in, conv *p) {
  cad_window *w = &p->w;
  if (groups < 1 || w->channels % groups || w->out_channels < 1 || w->out_channels % groups)
    return EC_ARG_FAIL(c, "'groups' is %lld for %lld channels of 'input' and %lld of 'weight'",
                       (long long)groups, (long long)w->channels, (long long)w->out_channels);
  w->groups = groups;
  w->group_in = w->channels / groups;
  if (in != (p->shares ? w->channels : w->group_in))
    return EC_ARG_FAIL(c, "'input' has %lld channels, 'weight' takes %lld for %lld groups",
                       (long long)w->channels, (long long)in, (long long)groups);
  return EC_BACKEND_OK;
}

/* Resizes the output and computes it; `dtype` is that of the bias. */
static uint32_t conv_run(const cad_call *c, float zero, float weight_zero, int32_t dtype,
                         conv *p) {
  const int64_t length = p->w.taps * p->w.group_in;
  const cad_tensor *bias;
  EC_BACKEND_TRY(cad_window_output(c, c->count - 1, EC_ARG_SET(p->in->dtype), &p->w, &p->out));
  EC_BACKEND_TRY(conv_filters(c, weight_zero, p));
  if (!p->bias) {
    EC_BACKEND_TRY(cad_vector(c, 2, "bias", EC_ARG_SET(dtype), p->w.out_channels, &bias));
    EC_BACKEND_TRY(cad_floats(c, bias, 0, &p->bias));
  }
  EC_BACKEND_TRY(cad_floats(c, p->in, zero, &p->w.x));
  const double cost = (double)length * (double)(p->w.out_channels + p->w.groups);
  return cad_window_each(c, &p->w, length, cost, conv_pixels, p, &p->patches);
}

/* Sets the kernel to the sizes of the weights from dimension `first` on; returns its taps. */
static int64_t conv_kernel(size_t first, conv *p) {
  int64_t taps = 1;
  for (size_t d = 0; d < p->w.space; d++)
    taps *= p->w.axes[CAD_SPACE - p->w.space + d].kernel = p->weight->sizes[first + d];
  return taps;
}

/* Reads weights [out, in, taps], or [out, taps, in], or [taps, out] of a depthwise convolution with
 * channels last; returns the weights' in channels. */
static uint32_t conv_weights(const cad_call *c, uint32_t dtypes, int64_t groups, conv *p,
                             int64_t *in) {
  const size_t space = p->w.space;
  EC_BACKEND_TRY(EC_ARG_TENSOR(c, 1, "weight", dtypes, -1, &p->weight));
  const cad_tensor *w = p->weight;
  const bool last = p->w.last, flat = last && groups > 1 && groups == p->w.channels &&
                               w->rank == space + 1;
  if (w->rank != space + 2 && !flat)
    return EC_ARG_FAIL(c, "'weight' has %u dimensions, expected %zu", (unsigned)w->rank, space + 2);
  const size_t out = flat ? space : 0, channel = last ? space + 1 : 1;
  p->w.out_channels = w->sizes[out];
  p->w.taps_first = last;
  *in = flat ? 1 : w->sizes[channel];
  const int64_t taps = conv_kernel(flat ? 0 : last ? 1 : 2, p);
  p->by_out = flat ? 1 : *in * taps;
  p->by_tap = flat ? p->w.out_channels : last ? *in : 1;
  p->by_in = last ? 1 : taps;
  return EC_BACKEND_OK;
}

/* ---- quantised --------------------------------------------------------------------------- */

/* Reads the parameters of quantisation from argument `i` on. out_multiplier and out_shift repeat
 * the scales and are not read. */
static uint32_t quantized_finish(const cad_call *c, size_t i, conv *p, int32_t zeros[2]) {
  double scale, out_scale;
  int32_t out_zero;
  EC_BACKEND_TRY(cad_int(c, i, "input_zero_point", &zeros[0]));
  EC_BACKEND_TRY(cad_int(c, i + 1, "weight_zero_point", &zeros[1]));
  EC_BACKEND_TRY(cad_scale(c, i + 2, "bias_scale", &scale));
  EC_BACKEND_TRY(cad_scale(c, i + 3, "out_scale", &out_scale));
  EC_BACKEND_TRY(cad_int(c, i + 4, "out_zero_point", &out_zero));
  p->finish = (cad_finish){true, (float)scale,
                           cad_quantizer_of(1.0 / out_scale, out_zero, p->in->dtype)};
  return EC_BACKEND_OK;
}

static uint32_t quantized_run(const cad_call *c, bool last, bool depthwise) {
  conv p = {0};
  int32_t zeros[2];
  int64_t in;
  const int64_t groups = c->args[6].as.i;
  EC_BACKEND_TRY(EC_ARG_TENSOR(c, 0, "input", c->dtypes, -1, &p.in));
  EC_BACKEND_TRY(cad_window_image(c, p.in, last, &p.w));
  EC_BACKEND_TRY(conv_weights(c, c->dtypes, groups, &p, &in));
  EC_BACKEND_TRY(conv_groups(c, groups, in, &p));
  if (depthwise && (groups < 2 || groups != p.w.channels))
    return EC_ARG_FAIL(c, "'groups' is %lld for %lld channels, expected a depthwise convolution",
                       (long long)groups, (long long)p.w.channels);
  EC_BACKEND_TRY(cad_window_read(c, conv_steps, p.w.space, &p.w));
  EC_BACKEND_TRY(quantized_finish(c, 7, &p, zeros));
  EC_BACKEND_TRY(cad_window_size(c, false, NULL, &p.w));
  return conv_run(c, (float)zeros[0], (float)zeros[1], EC_DTYPE_INT32, &p);
}

uint32_t cad_quantized_conv_first(const cad_call *c) { return quantized_run(c, false, false); }
uint32_t cad_quantized_conv_last(const cad_call *c) { return quantized_run(c, true, false); }
uint32_t cad_quantized_depthwise_first(const cad_call *c) { return quantized_run(c, false, true); }
uint32_t cad_quantized_depthwise_last(const cad_call *c) { return quantized_run(c, true, true); }

/* ---- floats ------------------------------------------------------------------------------ */

uint32_t cad_conv(const cad_call *c) {
  conv p = {0};
  int64_t in;
  const int64_t groups = c->args[6].as.i;
  EC_BACKEND_TRY(EC_ARG_TENSOR(c, 0, "input", CAD_FLOAT, -1, &p.in));
  EC_BACKEND_TRY(cad_window_image(c, p.in, false, &p.w));
  EC_BACKEND_TRY(conv_weights(c, CAD_FLOAT, groups, &p, &in));
  EC_BACKEND_TRY(conv_groups(c, groups, in, &p));
  EC_BACKEND_TRY(cad_window_read(c, conv_steps, p.w.space, &p.w));
  EC_BACKEND_TRY(cad_window_size(c, false, NULL, &p.w));
  return conv_run(c, 0, 0, EC_DTYPE_FLOAT32, &p);
}

/* Weights [taps, out, in] and bias of int8, each with a scale; an input [N, L, C]. */
uint32_t cad_w8a32_conv(const cad_call *c) {
  conv p = {0};
  const cad_tensor *bias;
  double scales[2];
  EC_BACKEND_TRY(EC_ARG_TENSOR(c, 0, "input", CAD_FLOAT, 3, &p.in));
  EC_BACKEND_TRY(EC_ARG_TENSOR(c, 1, "weight", EC_ARG_SET(EC_DTYPE_INT8), 3, &p.weight));
  EC_BACKEND_TRY(cad_scale(c, 2, "w_scale", &scales[0]));
  EC_BACKEND_TRY(cad_scale(c, 4, "b_scale", &scales[1]));
  const int64_t *sizes = p.weight->sizes;
  if (sizes[0] != 3 || sizes[1] % 4 || sizes[2] % 4)
    return EC_ARG_FAIL(c,
                       "'weight' is %lld x %lld x %lld, expected 3 taps and multiples of 4 "
                       "channels",
                       (long long)sizes[0], (long long)sizes[1], (long long)sizes[2]);
  EC_BACKEND_TRY(cad_window_image(c, p.in, true, &p.w));
  p.by_tap = sizes[1] * sizes[2], p.by_out = sizes[2], p.by_in = 1;
  p.w.out_channels = sizes[1];
  p.w.axes[CAD_SPACE - 1].kernel = sizes[0];
  EC_BACKEND_TRY(conv_groups(c, 1, sizes[2], &p));
  EC_BACKEND_TRY(cad_window_size(c, false, NULL, &p.w));
  EC_BACKEND_TRY(cad_vector(c, 3, "bias", EC_ARG_SET(EC_DTYPE_INT8), sizes[1], &bias));
  EC_BACKEND_TRY(cad_floats(c, bias, 0, &p.bias));
  for (int64_t i = 0; i < sizes[1]; i++) p.bias[i] *= (float)scales[1];
  p.w.last = false; /* the output is [N, C, L] */
  p.weight_scale = (float)scales[0];
  return conv_run(c, 0, 0, EC_DTYPE_INT8, &p);
}

/* ---- transposed -------------------------------------------------------------------------- */

/* Reads the weights [out / groups, in, taps], or [out / groups, taps, in]: filters that the flow
 * has turned round, so that they apply to an image with zeros between its pixels. */
static uint32_t transposed_read(const cad_call *c, uint32_t dtypes, bool last, conv *p) {
  int64_t in, extra[CAD_SPACE] = {0};
  const int64_t groups = c->args[7].as.i;
  EC_BACKEND_TRY(cad_window_image(c, p->in, last, &p->w));
  EC_BACKEND_TRY(conv_weights(c, dtypes, 1, p, &in));
  p->shares = true;
  if (groups < 1 || __builtin_mul_overflow(p->w.out_channels, groups, &p->w.out_channels))
    return EC_ARG_FAIL(c, "'groups' is %lld, expected 1 or more", (long long)groups);
  EC_BACKEND_TRY(conv_groups(c, groups, in, p));
  EC_BACKEND_TRY(cad_window_read(c, conv_steps, p->w.space, &p->w));
  EC_BACKEND_TRY(cad_ints(c, 6, "output_padding", 0, p->w.space, extra + CAD_SPACE - p->w.space));
  for (size_t d = 0; d < CAD_SPACE; d++) {
    p->w.axes[d].transposed = true;
    if (extra[d] && extra[d] >= p->w.axes[d].stride && extra[d] >= p->w.axes[d].dilation)
      return EC_ARG_FAIL(c, "'output_padding' is %lld, expected less than stride or dilation",
                         (long long)extra[d]);
  }
  return cad_window_size(c, false, extra, &p->w);
}

uint32_t cad_transposed_conv(const cad_call *c) {
  conv p = {0};
  EC_BACKEND_TRY(EC_ARG_TENSOR(c, 0, "input", CAD_FLOAT, -1, &p.in));
  EC_BACKEND_TRY(transposed_read(c, CAD_FLOAT, c->args[8].as.b, &p));
  return conv_run(c, 0, 0, EC_DTYPE_FLOAT32, &p);
}

uint32_t cad_quantized_transposed_conv(const cad_call *c) {
  conv p = {0};
  int32_t zeros[2];
  EC_BACKEND_TRY(EC_ARG_TENSOR(c, 0, "input", c->dtypes, -1, &p.in));
  EC_BACKEND_TRY(transposed_read(c, c->dtypes, c->args[15].as.b, &p));
  EC_BACKEND_TRY(quantized_finish(c, 8, &p, zeros));
  return conv_run(c, (float)zeros[0], (float)zeros[1], EC_DTYPE_INT32, &p);
}
