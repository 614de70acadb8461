/* Pooling of int8 images. The average is computed in float32, as in the flow's reference. */
#include "pool.h"

#include "../window.h"
#include "requantize.h"

#include <math.h>

typedef struct pool {
  cm_image in, out;
  ec_axis axes[2]; /* height, width */
  int32_t zero, low, high;
  float scale;
  int8_t (*reduce)(const struct pool *p, const int8_t *from, int64_t height, int64_t width);
} pool;

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
    const ec_span h = ec_axis_span(&p->axes[0], y);
    const int8_t *in = p->in.data + n * p->in.by_n + h.begin * p->in.by_h;
    int8_t *out = p->out.data + n * p->out.by_n + y * p->out.by_h;
    for (int64_t x = 0; x < p->out.w; x++) {
      const ec_span w = ec_axis_span(&p->axes[1], x);
      for (int64_t k = 0; k < p->out.c; k++)
        out[x * p->out.by_w + k * p->out.by_c] =
            p->reduce(p, in + w.begin * p->in.by_w + k * p->in.by_c, h.end - h.begin,
                      w.end - w.begin);
    }
  }
}

static uint32_t pool_read(const cm_call *c, bool nhwc, size_t ceil_mode, pool *p) {
  int64_t kernel[2], stride[2], padding[2];
  EC_BACKEND_TRY(cm_check(c, 0, "input", EC_DTYPE_INT8, 4));
  p->in = cm_image_of(cm_tensor(c, 0), nhwc);
  EC_BACKEND_TRY(cm_pair(c, 1, "kernel_size", 1, true, kernel));
  EC_BACKEND_TRY(cm_pair(c, 2, "stride", 1, true, stride));
  EC_BACKEND_TRY(cm_pair(c, 3, "padding", 0, true, padding));
  for (int d = 0; d < 2; d++) {
    ec_axis *a = &p->axes[d];
    *a = (ec_axis){.in = d ? p->in.w : p->in.h, .kernel = kernel[d], .stride = stride[d],
                   .dilation = 1, .before = padding[d], .after = padding[d]};
    ec_axis_fit(a, c->args[ceil_mode].as.b, 0);
    if (a->in < 1 || a->out < 1)
      return EC_ARG_FAIL(c, "a window of %lld x %lld does not fit an input of %lld x %lld",
                         (long long)kernel[0], (long long)kernel[1], (long long)p->in.h,
                         (long long)p->in.w);
    if (2 * a->before > a->kernel)
      return EC_ARG_FAIL(c, "a padding of %lld is more than half of the window's %lld",
                         (long long)a->before, (long long)a->kernel);
  }
  p->out = (cm_image){.n = p->in.n, .c = p->in.c, .h = p->axes[0].out, .w = p->axes[1].out};
  return EC_BACKEND_OK;
}

static uint32_t pool_run(const cm_call *c, bool nhwc, size_t out, pool *p) {
  EC_BACKEND_TRY(cm_resize_image(c, out, nhwc, &p->out));
  const double cost =
      (double)p->out.w * (double)p->out.c * (double)p->axes[0].kernel * (double)p->axes[1].kernel;
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
