/* Pools of NHWC images: integers, or float32. */
#include <math.h>

#include "../window.h"
#include "operators.h"
#include "scale.h"

enum { NAN_IGNORED = 2 };

typedef struct pool pool;

/* Computes `out[c]` of one position from the pixels of its window. */
typedef void window_fn(const pool *p, int64_t n, const ec_span at[2], int64_t position);

struct pool {
  const eto_tensor *in, *out;
  window_fn *window;
  ec_axis axes[2]; /* height, width */
  int64_t channels;
  int64_t input_zp, output_zp, nan_mode;
};

static void run_lines(void *user, size_t begin, size_t end) {
  const pool *p = user;
  const int64_t height = p->axes[0].out, width = p->axes[1].out;
  for (int64_t line = (int64_t)begin; line < (int64_t)end; line++)
    for (int64_t x = 0; x < width; x++) {
      const ec_span at[] = {ec_axis_span(&p->axes[0], line % height), ec_axis_span(&p->axes[1], x)};
      p->window(p, line / height, at, line * width + x);
    }
}

static int64_t pixel(const pool *p, int64_t n, int64_t y, int64_t x) {
  return ((n * p->axes[0].in + y) * p->axes[1].in + x) * p->channels;
}

static int64_t count_pixels(const ec_span at[2]) {
  return (at[0].end - at[0].begin) * (at[1].end - at[1].begin);
}

/* ---- windows --------------------------------------------------------------------------------- */

/* The scale 1 / count of a window. */
static int64_t divide(int64_t sum, int64_t count) {
  int k = 0;
  while ((INT64_C(1) << k) < count) k++;
  return eto_scale(sum, (((INT64_C(1) << 30) + 1) << k) / count, 30 + k, ETO_SINGLE);
}

static void average_integers(const pool *p, int64_t n, const ec_span at[2], int64_t position) {
  const int64_t count = count_pixels(at);
  for (int64_t c = 0; c < p->channels; c++) {
    int64_t sum = 0, item;
    for (int64_t y = at[0].begin; y < at[0].end; y++)
      for (int64_t x = at[1].begin; x < at[1].end; x++) {
        eto_load(p->in, pixel(p, n, y, x) + c, 1, false, &item);
        sum = eto_add(sum, eto_subtract(item, p->input_zp));
      }
    const int64_t mean = eto_add(count ? divide(sum, count) : 0, p->output_zp);
    item = eto_clip(mean, eto_least(p->out->dtype), eto_most(p->out->dtype));
    eto_store(p->out, position * p->channels + c, 1, &item);
  }
}

static void average_floats(const pool *p, int64_t n, const ec_span at[2], int64_t position) {
  const float *in = p->in->data;
  const int64_t count = count_pixels(at);
  for (int64_t c = 0; c < p->channels; c++) {
    float sum = 0;
    for (int64_t y = at[0].begin; y < at[0].end; y++)
      for (int64_t x = at[1].begin; x < at[1].end; x++) sum += in[pixel(p, n, y, x) + c];
    ((float *)p->out->data)[position * p->channels + c] = count ? sum / (float)count : 0;
  }
}

static void greatest_integers(const pool *p, int64_t n, const ec_span at[2], int64_t position) {
  for (int64_t c = 0; c < p->channels; c++) {
    int64_t most = eto_least(p->in->dtype), item;
    for (int64_t y = at[0].begin; y < at[0].end; y++)
      for (int64_t x = at[1].begin; x < at[1].end; x++) {
        eto_load(p->in, pixel(p, n, y, x) + c, 1, false, &item);
        if (item > most) most = item;
      }
    eto_store(p->out, position * p->channels + c, 1, &most);
  }
}

/* Returns the greater of two numbers, or NaN as nan_mode says. */
static float greater(const pool *p, float a, float b) {
  if (isnan(a)) return p->nan_mode == NAN_IGNORED ? b : a;
  if (isnan(b)) return p->nan_mode == NAN_IGNORED ? a : b;
  return a > b ? a : b;
}

static void greatest_floats(const pool *p, int64_t n, const ec_span at[2], int64_t position) {
  const float *in = p->in->data;
  for (int64_t c = 0; c < p->channels; c++) {
    float most = p->nan_mode == NAN_IGNORED ? (float)NAN : -(float)INFINITY;
    for (int64_t y = at[0].begin; y < at[0].end; y++)
      for (int64_t x = at[1].begin; x < at[1].end; x++)
        most = greater(p, most, in[pixel(p, n, y, x) + c]);
    ((float *)p->out->data)[position * p->channels + c] = most;
  }
}

/* ---- arguments ------------------------------------------------------------------------------- */

/* Reads kernel, stride and pad from argument `at` on. */
static uint32_t read_window(const eto_call *c, size_t at, pool *p) {
  int64_t kernel[2], stride[2], pad[4];
  EC_BACKEND_TRY(EC_ARG_TENSOR(c, 0, "input", ETO_NUMBERS, 4, &p->in));
  EC_BACKEND_TRY(eto_ints(c, at, "kernel", 1, 2, kernel));
  EC_BACKEND_TRY(eto_ints(c, at + 1, "stride", 1, 2, stride));
  EC_BACKEND_TRY(eto_ints(c, at + 2, "pad", 0, 4, pad));
  p->channels = p->in->sizes[3];
  for (int d = 0; d < 2; d++) {
    ec_axis *a = &p->axes[d];
    *a = (ec_axis){.in = p->in->sizes[d + 1], .kernel = kernel[d], .stride = stride[d],
                   .dilation = 1, .before = pad[2 * d], .after = pad[2 * d + 1]};
    ec_axis_fit(a, false, 0);
    if (a->out < 1 || a->before >= a->kernel || a->after >= a->kernel)
      return EC_ARG_FAIL(c, "a kernel of %lld and a padding of %lld and %lld do not fit to %lld",
                         (long long)a->kernel, (long long)a->before, (long long)a->after,
                         (long long)a->in);
  }
  return EC_BACKEND_OK;
}

static uint32_t run_pool(const eto_call *c, size_t out, pool *p) {
  const int64_t sizes[] = {p->in->sizes[0], p->axes[0].out, p->axes[1].out, p->channels};
  EC_BACKEND_TRY(EC_ARG_OUTPUT(c, out, ETO_NUMBERS, 4, sizes, &p->out));
  if (p->out->dtype != p->in->dtype)
    return EC_ARG_FAIL(c, "'out' has dtype %d, the input %d", p->out->dtype, p->in->dtype);
  c->host->parallel_for(c->call, (size_t)(sizes[0] * sizes[1]), 1, run_lines, p);
  return EC_BACKEND_OK;
}

uint32_t eto_avg_pool2d(const eto_call *c) {
  pool p = {0};
  EC_BACKEND_TRY(read_window(c, 3, &p));
  EC_BACKEND_TRY(eto_first(c, 1, "input_zp", &p.input_zp));
  EC_BACKEND_TRY(eto_first(c, 2, "output_zp", &p.output_zp));
  p.window = p.in->dtype == EC_DTYPE_FLOAT32 ? average_floats : average_integers;
  return run_pool(c, 6, &p);
}

uint32_t eto_max_pool2d(const eto_call *c) {
  pool p = {.nan_mode = c->args[4].as.i};
  EC_BACKEND_TRY(read_window(c, 1, &p));
  p.window = p.in->dtype == EC_DTYPE_FLOAT32 ? greatest_floats : greatest_integers;
  return run_pool(c, 5, &p);
}
