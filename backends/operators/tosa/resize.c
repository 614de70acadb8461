/* RESIZE of NHWC images: integers, or float32. */
#include <math.h>

#include "operators.h"

enum { NEAREST = 1, BILINEAR = 2, Y = 0, X = 1 };

typedef struct resize {
  const eto_tensor *in, *out;
  int64_t size[2], to[2], channels;
  int64_t scale[4], offset[2]; /* scale: numerator and denominator of y, of x */
  bool nearest;
} resize;

/* A position of the output between two rows or columns of the input. */
typedef struct between {
  int64_t first, second, past; /* past: of scale[2 * d] */
} between;

static between find_between(const resize *r, int d, int64_t out) {
  const int64_t scaled = out * r->scale[2 * d + 1] + r->offset[d], unit = r->scale[2 * d];
  const int64_t index = scaled >= 0 ? scaled / unit : -((unit - 1 - scaled) / unit);
  between b = {eto_clip(index, 0, r->size[d] - 1), eto_clip(index + 1, 0, r->size[d] - 1),
               scaled - index * unit};
  if (!r->nearest) return b;
  b.first = 2 * b.past >= unit ? b.second : b.first;
  return b;
}

static int64_t at(const resize *r, int64_t n, int64_t y, int64_t x) {
  return ((n * r->size[Y] + y) * r->size[X] + x) * r->channels;
}

static void mix_integers(const resize *r, const int64_t from[4], const between *y,
                         const between *x, int64_t to) {
  const int64_t dy[] = {r->scale[0] - y->past, y->past}, dx[] = {r->scale[2] - x->past, x->past};
  for (int64_t c = 0; c < r->channels; c++) {
    int64_t sum = 0, item;
    for (int i = 0; i < 4; i++) {
      eto_load(r->in, from[i] + c, 1, false, &item);
      sum = eto_add(sum, eto_multiply(item, dy[i / 2] * dx[i % 2]));
    }
    eto_store(r->out, to + c, 1, &sum);
  }
}

static void mix_floats(const resize *r, const int64_t from[4], const between *y, const between *x,
                       int64_t to) {
  const float py = (float)y->past / (float)r->scale[0], px = (float)x->past / (float)r->scale[2];
  const float dy[] = {1 - py, py}, dx[] = {1 - px, px}, *in = r->in->data;
  for (int64_t c = 0; c < r->channels; c++) {
    float sum = 0;
    for (int i = 0; i < 4; i++) sum += in[from[i] + c] * dy[i / 2] * dx[i % 2];
    ((float *)r->out->data)[to + c] = sum;
  }
}

static void copy_pixel(const resize *r, int64_t from, int64_t to) {
  int64_t item;
  for (int64_t c = 0; c < r->channels; c++) {
    if (r->in->dtype == EC_DTYPE_FLOAT32) {
      ((float *)r->out->data)[to + c] = ((const float *)r->in->data)[from + c];
      continue;
    }
    eto_load(r->in, from + c, 1, false, &item);
    eto_store(r->out, to + c, 1, &item);
  }
}

static void run_lines(void *user, size_t begin, size_t end) {
  const resize *r = user;
  for (int64_t line = (int64_t)begin; line < (int64_t)end; line++) {
    const between y = find_between(r, Y, line % r->to[Y]);
    const int64_t n = line / r->to[Y];
    for (int64_t ox = 0; ox < r->to[X]; ox++) {
      const between x = find_between(r, X, ox);
      const int64_t from[] = {at(r, n, y.first, x.first), at(r, n, y.first, x.second),
                              at(r, n, y.second, x.first), at(r, n, y.second, x.second)};
      const int64_t to = (line * r->to[X] + ox) * r->channels;
      if (r->nearest) copy_pixel(r, from[0], to);
      else if (r->in->dtype == EC_DTYPE_FLOAT32) mix_floats(r, from, &y, &x, to);
      else mix_integers(r, from, &y, &x, to);
    }
  }
}

static uint32_t find_sizes(const eto_call *c, const int64_t border[2], resize *r) {
  for (int d = 0; d < 2; d++) {
    r->size[d] = r->in->sizes[d + 1];
    const int64_t last = (r->size[d] - 1) * r->scale[2 * d] - r->offset[d] + border[d];
    if (r->size[d] < 1 || r->size[d] > ETO_MAX_EXTENT || last < 0)
      return EC_ARG_FAIL(c,
                         "the scale, offset and border of dimension %d do not fit to %lld elements",
                         d + 1, (long long)r->size[d]);
    r->to[d] = last / r->scale[2 * d + 1] + 1;
  }
  return EC_BACKEND_OK;
}

uint32_t eto_resize(const eto_call *c) {
  resize r = {.nearest = c->args[4].as.i == NEAREST};
  int64_t border[2];
  EC_BACKEND_TRY(EC_ARG_TENSOR(c, 0, "input", ETO_NUMBERS, 4, &r.in));
  EC_BACKEND_TRY(eto_ints(c, 1, "scale", 1, 4, r.scale));
  EC_BACKEND_TRY(eto_ints(c, 2, "offset", -ETO_MAX_EXTENT, 2, r.offset));
  EC_BACKEND_TRY(eto_ints(c, 3, "border", -ETO_MAX_EXTENT, 2, border));
  if (!r.nearest && c->args[4].as.i != BILINEAR)
    return EC_ARG_FAIL(c, "'mode' is %lld, expected %d or %d", (long long)c->args[4].as.i, NEAREST,
                       BILINEAR);
  EC_BACKEND_TRY(find_sizes(c, border, &r));
  r.channels = r.in->sizes[3];
  const int64_t sizes[] = {r.in->sizes[0], r.to[Y], r.to[X], r.channels};
  EC_BACKEND_TRY(EC_ARG_OUTPUT(c, 5, ETO_NUMBERS, 4, sizes, &r.out));
  if ((r.in->dtype == EC_DTYPE_FLOAT32) != (r.out->dtype == EC_DTYPE_FLOAT32))
    return EC_ARG_FAIL(c, "'out' has dtype %d, the input %d", r.out->dtype, r.in->dtype);
  c->host->parallel_for(c->call, (size_t)(sizes[0] * r.to[Y]), 1, run_lines, &r);
  return EC_BACKEND_OK;
}
