/* Pooling of int8 images. The average is computed in float32, as in the flow's reference. */
#include "pool.h"

#include "requantize.h"

#include <math.h>

typedef struct pool {
  cm_image in, out;
  int64_t kernel[2], stride[2], padding[2];
  int32_t zero, low, high;
  float scale;
  int8_t (*reduce)(const struct pool *p, const int8_t *from, int64_t height, int64_t width);
} pool;

/* The part of a window in one dimension that lies inside the image. */
typedef struct span {
  int64_t begin, end;
} span;

static span pool_span(const pool *p, int d, int64_t at, int64_t size) {
  const int64_t first = at * p->stride[d] - p->padding[d], last = first + p->kernel[d];
  return (span){first < 0 ? 0 : first, last > size ? size : last};
}

static int8_t pool_average(const pool *p, const int8_t *from, int64_t height, int64_t width) {
  float sum = 0;
  for (int64_t h = 0; h < height; h++)
    for (int64_t w = 0; w < width; w++)
      sum += ((float)from[h * p->in.by_h + w * p->in.by_w] - (float)p->zero) * p->scale;
  const float mean = sum / (float)(height * width);
  const float q = nearbyintf(mean / p->scale) + (float)p->zero;
  return (int8_t)cm_clamp_float(q, INT8_MIN, INT8_MAX);
}

static int8_t pool_maximum(const pool *p, const int8_t *from, int64_t height, int64_t width) {
  int32_t most = INT8_MIN;
  for (int64_t h = 0; h < height; h++)
    for (int64_t w = 0; w < width; w++) {
      const int32_t x = from[h * p->in.by_h + w * p->in.by_w];
      if (x > most) most = x;
    }
  return (int8_t)cm_clamp(most, p->low, p->high);
}

static void pool_rows(void *user, size_t begin, size_t end) {
  const pool *p = user;
  for (int64_t row = (int64_t)begin; row < (int64_t)end; row++) {
    const int64_t n = row / p->out.h, y = row % p->out.h;
    const span h = pool_span(p, 0, y, p->in.h);
    const int8_t *in = p->in.data + n * p->in.by_n + h.begin * p->in.by_h;
    int8_t *out = p->out.data + n * p->out.by_n + y * p->out.by_h;
    for (int64_t x = 0; x < p->out.w; x++) {
      const span w = pool_span(p, 1, x, p->in.w);
      for (int64_t k = 0; k < p->out.c; k++)
        out[x * p->out.by_w + k * p->out.by_c] =
            p->reduce(p, in + w.begin * p->in.by_w + k * p->in.by_c, h.end - h.begin,
                      w.end - w.begin);
    }
  }
}

/* Returns the size of an output dimension as ATen does: with `ceil_mode` the last window begins
 * inside the image or the padding before it. */
static int64_t pool_size(const pool *p, int d, int64_t size, bool ceil_mode) {
  const int64_t room = size + 2 * p->padding[d] - p->kernel[d];
  if (room < 0) return 0;
  const int64_t count = (room + (ceil_mode ? p->stride[d] - 1 : 0)) / p->stride[d] + 1;
  return count - (ceil_mode && (count - 1) * p->stride[d] >= size + p->padding[d]);
}

static uint32_t pool_read(const cm_call *c, bool nhwc, size_t ceil_mode, pool *p) {
  EC_BACKEND_TRY(cm_check(c, 0, "input", EC_DTYPE_INT8, 4));
  p->in = cm_image_of(cm_tensor(c, 0), nhwc);
  EC_BACKEND_TRY(cm_pair(c, 1, "kernel_size", 1, true, p->kernel));
  EC_BACKEND_TRY(cm_pair(c, 2, "stride", 1, true, p->stride));
  EC_BACKEND_TRY(cm_pair(c, 3, "padding", 0, true, p->padding));
  const bool ceil = c->args[ceil_mode].as.b;
  p->out = (cm_image){.n = p->in.n, .c = p->in.c, .h = pool_size(p, 0, p->in.h, ceil),
                      .w = pool_size(p, 1, p->in.w, ceil)};
  if (p->in.h < 1 || p->in.w < 1 || p->out.h < 1 || p->out.w < 1)
    return EC_ARG_FAIL(c, "a window of %lld x %lld does not fit an input of %lld x %lld",
                       (long long)p->kernel[0], (long long)p->kernel[1], (long long)p->in.h,
                       (long long)p->in.w);
  for (int d = 0; d < 2; d++)
    if (2 * p->padding[d] > p->kernel[d])
      return EC_ARG_FAIL(c, "a padding of %lld is more than half of the window's %lld",
                         (long long)p->padding[d], (long long)p->kernel[d]);
  return EC_BACKEND_OK;
}

static uint32_t pool_run(const cm_call *c, bool nhwc, size_t out, pool *p) {
  EC_BACKEND_TRY(cm_resize_image(c, out, nhwc, &p->out));
  const double cost = (double)p->out.w * (double)p->out.c * (double)p->kernel[0] *
                      (double)p->kernel[1];
  EC_ARG_PARALLEL(c, p->out.c ? p->out.n * p->out.h : 0, cost, pool_rows, p);
  return EC_BACKEND_OK;
}

static uint32_t average_run(const cm_call *c, bool nhwc) {
  pool p = {.reduce = pool_average};
  cm_factor factor;
  EC_BACKEND_TRY(pool_read(c, nhwc, 4, &p));
  EC_BACKEND_TRY(cm_int32(c, 5, "zero_point", &p.zero));
  EC_BACKEND_TRY(cm_read_factor(c, 6, "the", &factor));
  p.scale = (float)ldexp(factor.multiplier, factor.left - factor.right - 31);
  return pool_run(c, nhwc, 9, &p);
}

static uint32_t maximum_run(const cm_call *c, bool nhwc) {
  pool p = {.reduce = pool_maximum};
  int64_t dilation[2];
  int32_t in_zero, out_zero;
  EC_BACKEND_TRY(pool_read(c, nhwc, 5, &p));
  EC_BACKEND_TRY(cm_pair(c, 4, "dilation", 1, true, dilation));
  EC_BACKEND_TRY(cm_int32(c, 6, "input_zero_point", &in_zero));
  EC_BACKEND_TRY(cm_int32(c, 7, "output_zero_point", &out_zero));
  EC_BACKEND_TRY(cm_int32(c, 8, "activation_min", &p.low));
  EC_BACKEND_TRY(cm_int32(c, 9, "activation_max", &p.high));
  if (dilation[0] != 1 || dilation[1] != 1 || c->args[5].as.b)
    return EC_ARG_FAIL(c, "the operator takes no dilation and no ceil_mode");
  if (in_zero != out_zero)
    return EC_ARG_FAIL(c, "the zero points %d of the input and %d of the output differ", in_zero,
                       out_zero);
  return pool_run(c, nhwc, 10, &p);
}

uint32_t cm_quantized_avg_pool2d(const cm_call *c) { return average_run(c, false); }
uint32_t cm_quantized_avg_pool2d_nhwc(const cm_call *c) { return average_run(c, true); }
uint32_t cm_quantized_max_pool2d(const cm_call *c) { return maximum_run(c, false); }
uint32_t cm_quantized_max_pool2d_nhwc(const cm_call *c) { return maximum_run(c, true); }
