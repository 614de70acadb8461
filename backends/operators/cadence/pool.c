/* Pooling: the greatest or the mean element under a window. */
#include "pool.h"

#include "quantize.h"
#include "window.h"

#include <math.h>

typedef struct pool {
  cad_window w;
  const cad_tensor *in, *out;
  bool averages, counts_padding, rounds;
  int64_t divisor; /* 0: the number of elements */
  float fill;      /* of the padding */
  float low, high; /* of a rounded mean; low: the greatest of no elements */
} pool;

/* Returns the pixels under a window in one dimension, padding included. */
static int64_t pool_size(const ec_axis *a, int64_t place) {
  const int64_t first = place * a->stride - a->before;
  const int64_t last = first + a->dilation * (a->kernel - 1) + 1, edge = a->in + a->after;
  return (last < edge ? last : edge) - first;
}

/* Returns the greatest element, or the sum. */
static double pool_reduce(const pool *p, const float *x, const ec_span at[2]) {
  double result = p->averages ? 0 : (double)p->low;
  for (int64_t h = at[0].begin; h < at[0].end; h += p->w.axes[1].dilation)
    for (int64_t w = at[1].begin; w < at[1].end; w += p->w.axes[2].dilation) {
      const double value = (double)x[h * p->w.by_pixel[1] + w * p->w.by_pixel[2]];
      if (p->averages) result += value;
      else if (value > result || isnan(value)) result = value;
    }
  return result;
}

static float pool_mean(const pool *p, double sum, const ec_span at[2], int64_t all) {
  const int64_t height = at[0].end - at[0].begin, width = at[1].end - at[1].begin;
  const int64_t inside = height > 0 && width > 0 ? height * width : 0;
  const int64_t count = p->divisor ? p->divisor : p->counts_padding ? all : inside;
  const float total = (float)(sum + (double)p->fill * (double)(all - inside));
  const float mean = count ? total / (float)count : 0;
  if (!p->rounds) return mean;
  const float rounded = nearbyintf(mean);
  return rounded < p->low ? p->low : rounded > p->high ? p->high : rounded;
}

static void pool_pixels(void *user, size_t begin, size_t end) {
  const pool *p = user;
  for (int64_t pixel = (int64_t)begin; pixel < (int64_t)end; pixel++) {
    int64_t place[CAD_SPACE], step;
    const int64_t image = cad_window_place(&p->w, pixel, place);
    const int64_t to = cad_window_at(&p->w, pixel, &step);
    const ec_axis *h = &p->w.axes[1], *w = &p->w.axes[2];
    const ec_span at[2] = {ec_axis_span(h, place[1]), ec_axis_span(w, place[2])};
    const int64_t all = pool_size(h, place[1]) * pool_size(w, place[2]);
    for (int64_t k = 0; k < p->w.channels; k++) {
      const float *x = p->w.x + image * p->w.by_image + k * p->w.by_channel;
      const double value = pool_reduce(p, x, at);
      const float result = p->averages ? pool_mean(p, value, at, all) : (float)value;
      cad_store(p->out, to + k * step, 1, 1, &result);
    }
  }
}

/* Reads input, kernel_size, stride and padding, the arguments 0 to 3, and dilation if there is any.
 * An empty stride is the kernel. */
static uint32_t pool_read(const cad_call *c, bool last, size_t dilation, pool *p) {
  cad_window *w = &p->w;
  const cad_places at = {1, c->args[2].as.list.count ? 2 : 1, 3, dilation};
  EC_BACKEND_TRY(EC_ARG_TENSOR(c, 0, "input", c->dtypes, 4, &p->in));
  EC_BACKEND_TRY(cad_window_image(c, p->in, last, w));
  EC_BACKEND_TRY(cad_window_read(c, at, 2, w));
  for (size_t d = 1; d < CAD_SPACE; d++)
    if (2 * w->axes[d].before > w->axes[d].kernel)
      return EC_ARG_FAIL(c, "a padding of %lld is more than half of the window's %lld",
                         (long long)w->axes[d].before, (long long)w->axes[d].kernel);
  w->out_channels = w->channels;
  return EC_BACKEND_OK;
}

static uint32_t pool_run(const cad_call *c, bool ceil_mode, pool *p) {
  EC_BACKEND_TRY(cad_window_size(c, ceil_mode, NULL, &p->w));
  EC_BACKEND_TRY(cad_window_output(c, c->count - 1, EC_ARG_SET(p->in->dtype), &p->w, &p->out));
  EC_BACKEND_TRY(cad_floats(c, p->in, 0, &p->w.x));
  const double cost = (double)p->w.channels * (double)p->w.taps;
  EC_ARG_PARALLEL(c, cad_window_pixels(&p->w), cost, pool_pixels, p);
  return EC_BACKEND_OK;
}

static uint32_t max_pool_run(const cad_call *c, bool last) {
  pool p = {0};
  EC_BACKEND_TRY(pool_read(c, last, 4, &p));
  p.low = p.in->dtype == EC_DTYPE_FLOAT32 ? -INFINITY : cad_quantizer_of(1, 0, p.in->dtype).low;
  return pool_run(c, c->args[5].as.b, &p);
}

uint32_t cad_max_pool_first(const cad_call *c) { return max_pool_run(c, false); }
uint32_t cad_max_pool_last(const cad_call *c) { return max_pool_run(c, true); }

/* With a zero point, the image is quantised: its padding counts always, as the zero point or,
 * without count_include_pad, as the number 0, and the mean is rounded. */
static uint32_t avg_pool_zero(const cad_call *c, pool *p) {
  int32_t zero;
  if (!cad_is_tensor(c, 7)) {
    const cad_tensor *t;
    return EC_ARG_TENSOR(c, 0, "input", CAD_FLOAT, 4, &t);
  }
  EC_BACKEND_TRY(cad_int(c, 7, "in_zero_point", &zero));
  const cad_quantizer q = cad_quantizer_of(1, 0, p->in->dtype);
  p->fill = p->counts_padding ? (float)zero : 0;
  p->counts_padding = p->rounds = true;
  p->low = q.low;
  p->high = q.high;
  return EC_BACKEND_OK;
}

uint32_t cad_avg_pool(const cad_call *c) {
  pool p = {.averages = true, .counts_padding = c->args[5].as.b};
  EC_BACKEND_TRY(pool_read(c, c->args[8].as.b, 0, &p));
  if (c->args[6].kind == EC_BACKEND_INT) {
    p.divisor = c->args[6].as.i;
    if (!p.divisor) return EC_ARG_FAIL(c, "'divisor_override' is 0");
  }
  EC_BACKEND_TRY(avg_pool_zero(c, &p));
  return pool_run(c, c->args[4].as.b, &p);
}
