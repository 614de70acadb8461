/* Convolutions: arm_convolve_s8, arm_depthwise_conv_s8 and arm_transpose_conv_s8. Weights are
 * [O, H, W, I], those of depthwise convolutions [1, H, W, O]. */
#include "window.h"

#include "../window.h"
#include "dot.h"
#include "requantize.h"

enum { BLOCK = 64 }; /* channels of a depthwise convolution whose sums are kept at once */

typedef struct window {
  cm_image in, out;
  const int8_t *weight;
  ec_axis axes[2]; /* height, width */
  int64_t by_o, by_kernel[2], by_i;                      /* strides of the weights */
  int64_t group_in, group_out;                           /* channels of a group */
  const int32_t *bias, *multipliers, *shifts;
  int32_t offset, out_offset, low, high;
} window;

/* Positions of the arguments after `dilation`, which differ between the three operators. */
typedef struct layout {
  size_t stride, padding, dilation, offset, factors, out;
} layout;

static int32_t window_start(const window *p, int64_t channel) {
  return p->bias ? p->bias[channel] : 0;
}

static int8_t window_finish(const window *p, int64_t channel, int32_t sum) {
  const cm_factor factor = cm_factor_of(p->multipliers[channel], p->shifts[channel]);
  const int32_t value = cm_add(cm_requantize(sum, factor), p->out_offset);
  return (int8_t)cm_clamp(value, p->low, p->high);
}

static int8_t *window_output(const window *p, int64_t row, int64_t x) {
  return p->out.data + row / p->out.h * p->out.by_n + row % p->out.h * p->out.by_h +
         x * p->out.by_w;
}

/* Returns the scalar product of the pixel (h, w) and the tap (i, k) of an output channel. */
static int32_t window_dot(const window *p, const int8_t *in, int64_t h, int64_t w,
                          int64_t channel, int64_t i, int64_t k) {
  const cm_vector a = {in + h * p->in.by_h + w * p->in.by_w, p->in.by_c, p->offset};
  const int8_t *weight = p->weight + channel * p->by_o + i * p->by_kernel[0] + k * p->by_kernel[1];
  return cm_dot(a, (cm_vector){weight, p->by_i, 0}, p->group_in);
}

/* ---- convolution ------------------------------------------------------------------------- */

/* Returns the sum of one output channel at (y, x). A transposed convolution has one group. */
static int32_t conv_sum(const window *p, const int8_t *image, int64_t y, int64_t x,
                        int64_t channel) {
  const int8_t *in = image + channel / p->group_out * p->group_in * p->in.by_c;
  int32_t sum = window_start(p, channel);
  int64_t h, w;
  for (int64_t i = 0; i < p->axes[0].kernel; i++) {
    /* the padding is the zero point, which adds nothing */
    if (!ec_axis_pixel(&p->axes[0], y, i, &h)) continue;
    for (int64_t k = 0; k < p->axes[1].kernel; k++) {
      if (!ec_axis_pixel(&p->axes[1], x, k, &w)) continue;
      sum = cm_add(sum, window_dot(p, in, h, w, channel, i, k));
    }
  }
  return sum;
}

static void conv_rows(void *user, size_t begin, size_t end) {
  const window *p = user;
  for (int64_t row = (int64_t)begin; row < (int64_t)end; row++) {
    const int8_t *image = p->in.data + row / p->out.h * p->in.by_n;
    for (int64_t x = 0; x < p->out.w; x++) {
      int8_t *out = window_output(p, row, x);
      for (int64_t o = 0; o < p->out.c; o++)
        out[o * p->out.by_c] = window_finish(p, o, conv_sum(p, image, row % p->out.h, x, o));
    }
  }
}

/* ---- depthwise convolution --------------------------------------------------------------- */

/* Adds one position of the window to the sums of `count` channels from `first`. */
static void depthwise_add(const window *p, const int8_t *in, const int8_t *weight, int64_t first,
                          int64_t count, int32_t *sums) {
  const uint32_t offset = (uint32_t)p->offset;
  if (p->group_out == 1 && p->in.by_c == 1 && p->by_o == 1) {
    for (int64_t o = 0; o < count; o++)
      sums[o] = cm_add(sums[o], (int32_t)(((uint32_t)in[first + o] + offset) *
                                          (uint32_t)weight[first + o]));
    return;
  }
  for (int64_t o = 0; o < count; o++) {
    const int8_t x = in[(first + o) / p->group_out * p->in.by_c];
    sums[o] = cm_add(sums[o], (int32_t)(((uint32_t)x + offset) *
                                        (uint32_t)weight[(first + o) * p->by_o]));
  }
}

/* Computes `count` channels from `first` at (y, x). */
static void depthwise_block(const window *p, const int8_t *image, int64_t y, int64_t x,
                            int64_t first, int64_t count, int8_t *out) {
  int32_t sums[BLOCK];
  int64_t h, w;
  for (int64_t o = 0; o < count; o++) sums[o] = window_start(p, first + o);
  for (int64_t i = 0; i < p->axes[0].kernel; i++) {
    if (!ec_axis_pixel(&p->axes[0], y, i, &h)) continue;
    for (int64_t k = 0; k < p->axes[1].kernel; k++) {
      if (!ec_axis_pixel(&p->axes[1], x, k, &w)) continue;
      depthwise_add(p, image + h * p->in.by_h + w * p->in.by_w,
                    p->weight + i * p->by_kernel[0] + k * p->by_kernel[1], first, count, sums);
    }
  }
  for (int64_t o = 0; o < count; o++)
    out[(first + o) * p->out.by_c] = window_finish(p, first + o, sums[o]);
}

static void depthwise_rows(void *user, size_t begin, size_t end) {
  const window *p = user;
  for (int64_t row = (int64_t)begin; row < (int64_t)end; row++) {
    const int8_t *image = p->in.data + row / p->out.h * p->in.by_n;
    for (int64_t x = 0; x < p->out.w; x++)
      for (int64_t first = 0; first < p->out.c; first += BLOCK)
        depthwise_block(p, image, row % p->out.h, x, first,
                        p->out.c - first < BLOCK ? p->out.c - first : BLOCK,
                        window_output(p, row, x));
  }
}

/* ---- arguments --------------------------------------------------------------------------- */

/* Reads input, weights and the arguments that all three have. */
static uint32_t window_read(const cm_call *c, bool nhwc, bool depthwise, const layout *at,
                            window *p) {
  EC_BACKEND_TRY(cm_check(c, 0, "input", EC_DTYPE_INT8, 4));
  EC_BACKEND_TRY(cm_check(c, 1, "weight", EC_DTYPE_INT8, 4));
  int64_t stride[2], padding[2], dilation[2];
  const ec_backend_tensor *w = cm_tensor(c, 1);
  const size_t o = depthwise ? 3 : 0, i = depthwise ? 0 : 3;
  *p = (window){.in = cm_image_of(cm_tensor(c, 0), nhwc), .weight = w->data, .by_o = w->strides[o],
                .by_kernel = {w->strides[1], w->strides[2]}, .by_i = w->strides[i],
                .group_in = w->sizes[i]};
  p->out.n = p->in.n;
  p->out.c = w->sizes[o];
  EC_BACKEND_TRY(cm_pair(c, at->stride, "stride", 1, false, stride));
  EC_BACKEND_TRY(cm_pair(c, at->padding, "padding", 0, false, padding));
  EC_BACKEND_TRY(cm_pair(c, at->dilation, "dilation", 1, false, dilation));
  for (int d = 0; d < 2; d++)
    p->axes[d] = (ec_axis){.in = d ? p->in.w : p->in.h, .kernel = w->sizes[1 + d],
                           .stride = stride[d], .dilation = dilation[d], .before = padding[d],
                           .after = padding[d]};
  EC_BACKEND_TRY(cm_int32(c, at->offset, "input_offset", &p->offset));
  EC_BACKEND_TRY(cm_int32(c, at->offset + 1, "output_offset", &p->out_offset));
  EC_BACKEND_TRY(cm_check_factors(c, at->factors, p->out.c));
  p->multipliers = cm_tensor(c, at->factors)->data;
  p->shifts = cm_tensor(c, at->factors + 1)->data;
  EC_BACKEND_TRY(cm_int32(c, at->factors + 2, "activation_min", &p->low));
  EC_BACKEND_TRY(cm_int32(c, at->factors + 3, "activation_max", &p->high));
  if (c->args[2].kind != EC_BACKEND_TENSOR) return EC_BACKEND_OK;
  EC_BACKEND_TRY(cm_check_vector(c, 2, "bias", EC_DTYPE_INT32, p->out.c));
  p->bias = cm_tensor(c, 2)->data;
  return EC_BACKEND_OK;
}

/* Checks the channels and sets those of a group. */
static uint32_t window_set_groups(const cm_call *c, window *p) {
  const int64_t groups = p->group_in > 0 ? p->in.c / p->group_in : 0;
  if (groups < 1 || groups * p->group_in != p->in.c || p->out.c % groups)
    return EC_ARG_FAIL(c, "'input' has %lld channels, 'weight' takes %lld and makes %lld",
                       (long long)p->in.c, (long long)p->group_in, (long long)p->out.c);
  p->group_out = p->out.c / groups;
  return EC_BACKEND_OK;
}

/* Resizes the output and computes its rows. */
static uint32_t window_run(const cm_call *c, bool nhwc, size_t out, const int64_t extra[2],
                           window *p, void (*rows)(void *user, size_t begin, size_t end)) {
  for (int d = 0; d < 2; d++) {
    ec_axis *a = &p->axes[d];
    ec_axis_fit(a, false, extra[d]);
    if (a->kernel < 1 || (a->transposed && a->in < 1) || a->out < 1)
      return EC_ARG_FAIL(c, "a kernel of %lld x %lld does not fit an input of %lld x %lld",
                         (long long)p->axes[0].kernel, (long long)p->axes[1].kernel,
                         (long long)p->in.h, (long long)p->in.w);
  }
  p->out.h = p->axes[0].out;
  p->out.w = p->axes[1].out;
  EC_BACKEND_TRY(cm_resize_image(c, out, nhwc, &p->out));
  const double taps = (double)p->axes[0].kernel * (double)p->axes[1].kernel * (double)p->group_in;
  const double cost = (double)p->out.w * (double)p->out.c * (taps + 1);
  EC_ARG_PARALLEL(c, p->out.c ? p->out.n * p->out.h : 0, cost, rows, p);
  return EC_BACKEND_OK;
}

static uint32_t conv_run(const cm_call *c, bool nhwc) {
  static const layout at = {3, 4, 5, 6, 8, 13};
  window p;
  EC_BACKEND_TRY(window_read(c, nhwc, false, &at, &p));
  EC_BACKEND_TRY(window_set_groups(c, &p));
  return window_run(c, nhwc, at.out, (int64_t[2]){0}, &p, conv_rows);
}

static uint32_t depthwise_run(const cm_call *c, bool nhwc) {
  static const layout at = {3, 4, 5, 7, 9, 14};
  window p;
  EC_BACKEND_TRY(window_read(c, nhwc, true, &at, &p));
  if (p.group_in != 1)
    return EC_ARG_FAIL(c, "'weight' has %lld elements in dimension 0, expected 1",
                       (long long)p.group_in);
  EC_BACKEND_TRY(window_set_groups(c, &p));
  return window_run(c, nhwc, at.out, (int64_t[2]){0}, &p, depthwise_rows);
}

static uint32_t transposed_run(const cm_call *c, bool nhwc) {
  static const layout at = {3, 4, 6, 7, 9, 15};
  window p;
  int64_t extra[2];
  EC_BACKEND_TRY(window_read(c, nhwc, false, &at, &p));
  EC_BACKEND_TRY(cm_pair(c, 5, "output_padding", 0, false, extra));
  if (p.group_in != p.in.c)
    return EC_ARG_FAIL(c, "'input' has %lld channels, 'weight' takes %lld", (long long)p.in.c,
                       (long long)p.group_in);
  p.group_out = p.out.c;
  p.axes[0].transposed = p.axes[1].transposed = true;
  return window_run(c, nhwc, at.out, extra, &p, conv_rows);
}

uint32_t cm_quantized_conv2d(const cm_call *c) { return conv_run(c, false); }
uint32_t cm_quantized_conv2d_nhwc(const cm_call *c) { return conv_run(c, true); }
uint32_t cm_quantized_depthwise_conv2d(const cm_call *c) { return depthwise_run(c, false); }
uint32_t cm_quantized_depthwise_conv2d_nhwc(const cm_call *c) { return depthwise_run(c, true); }
uint32_t cm_quantized_transpose_conv2d(const cm_call *c) { return transposed_run(c, false); }
uint32_t cm_quantized_transpose_conv2d_nhwc(const cm_call *c) { return transposed_run(c, true); }
