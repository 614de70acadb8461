/* Windows over images of up to three dimensions, and the patches under them. */
#include "window.h"

enum {
  LARGEST = INT32_MAX, /* size of an image */
  PATCHES = 1 << 18    /* floats of the patches that are kept at once */
};

uint32_t cad_window_image(const cad_call *c, const cad_tensor *t, bool last, cad_window *w) {
  if (t->rank < 3 || t->rank > CAD_SPACE + 2)
    return EC_ARG_FAIL(c, "'input' has %u dimensions, expected 3 to %d", (unsigned)t->rank,
                       CAD_SPACE + 2);
  const size_t channel = last ? t->rank - 1u : 1, first = last ? 1 : 2;
  *w = (cad_window){.images = t->sizes[0], .channels = t->sizes[channel], .groups = 1,
                    .by_image = t->strides[0], .by_channel = t->strides[channel],
                    .space = t->rank - 2u, .last = last, .group_in = t->sizes[channel]};
  for (size_t d = 0; d < CAD_SPACE; d++) {
    const bool real = d + w->space >= CAD_SPACE;
    const size_t from = first + d + w->space - CAD_SPACE;
    w->in[d] = real ? t->sizes[from] : 1;
    w->by_pixel[d] = real ? t->strides[from] : 0;
    w->kernel[d] = w->stride[d] = w->dilation[d] = w->up[d] = 1;
    if (w->in[d] < 1 || w->in[d] > LARGEST)
      return EC_ARG_FAIL(c, "'input' has %lld pixels in a dimension, expected 1 to %d",
                         (long long)w->in[d], LARGEST);
  }
  if (w->channels < 1) return EC_ARG_FAIL(c, "'input' has no channels, expected 1 or more");
  return EC_BACKEND_OK;
}

uint32_t cad_window_ints(const cad_call *c, size_t i, const char *name, int64_t least,
                         const cad_window *w, int64_t out[CAD_SPACE]) {
  return cad_ints(c, i, name, least, w->space, out + (CAD_SPACE - w->space));
}

/* Sets the number of taps. */
static uint32_t window_taps(const cad_call *c, cad_window *w) {
  w->taps = 1;
  for (size_t d = 0; d < CAD_SPACE; d++) {
    if (w->kernel[d] < 1 || w->kernel[d] > CAD_MOST)
      return EC_ARG_FAIL(c, "the kernel has %lld taps in a dimension, expected 1 to %d",
                         (long long)w->kernel[d], CAD_MOST);
    w->taps *= w->kernel[d]; /* at most 2^60 */
  }
  return EC_BACKEND_OK;
}

/* Checks that each dimension of the output has a pixel. */
static uint32_t window_fits(const cad_call *c, const cad_window *w) {
  for (size_t d = 0; d < CAD_SPACE; d++)
    if (w->out[d] < 1)
      return EC_ARG_FAIL(c, "a kernel of %lld does not fit an input of %lld",
                         (long long)w->kernel[d], (long long)w->in[d]);
  return EC_BACKEND_OK;
}

/* With `ceil_mode`, the last window begins inside the image or the padding before it (ATen). */
uint32_t cad_window_size(const cad_call *c, bool ceil_mode, cad_window *w) {
  EC_BACKEND_TRY(window_taps(c, w));
  for (size_t d = 0; d < CAD_SPACE; d++) {
    const int64_t room = w->in[d] + 2 * w->padding[d] - w->dilation[d] * (w->kernel[d] - 1) - 1;
    const int64_t extra = ceil_mode ? w->stride[d] - 1 : 0;
    w->out[d] = room < 0 ? 0 : (room + extra) / w->stride[d] + 1;
    if (ceil_mode && (w->out[d] - 1) * w->stride[d] >= w->in[d] + w->padding[d]) w->out[d]--;
  }
  return window_fits(c, w);
}

uint32_t cad_window_transpose(const cad_call *c, const int64_t extra[CAD_SPACE], cad_window *w) {
  EC_BACKEND_TRY(window_taps(c, w));
  for (size_t d = 0; d < CAD_SPACE; d++) {
    const int64_t reach = w->dilation[d] * (w->kernel[d] - 1);
    w->up[d] = w->stride[d];
    w->stride[d] = 1;
    w->out[d] = (w->in[d] - 1) * w->up[d] - 2 * w->padding[d] + reach + extra[d] + 1;
    w->padding[d] = reach - w->padding[d];
  }
  return window_fits(c, w);
}

int64_t cad_window_pixels(const cad_window *w) {
  return w->images * w->out[0] * w->out[1] * w->out[2];
}

uint32_t cad_window_output(const cad_call *c, size_t i, uint32_t dtypes, const cad_window *w,
                           const cad_tensor **out) {
  int64_t sizes[CAD_SPACE + 2] = {w->images};
  const size_t first = w->last ? 1 : 2, rank = w->space + 2;
  sizes[w->last ? rank - 1 : 1] = w->out_channels;
  for (size_t d = 0; d < w->space; d++) sizes[first + d] = w->out[CAD_SPACE - w->space + d];
  return cad_output(c, i, dtypes, rank, sizes, out);
}

int64_t cad_window_at(const cad_window *w, int64_t pixel, int64_t *step) {
  const int64_t pixels = w->out[0] * w->out[1] * w->out[2];
  *step = w->last ? 1 : pixels;
  if (w->last) return pixel * w->out_channels;
  return pixel / pixels * pixels * w->out_channels + pixel % pixels;
}

int64_t cad_window_place(const cad_window *w, int64_t pixel, int64_t place[CAD_SPACE]) {
  for (size_t d = CAD_SPACE; d-- > 0; pixel /= w->out[d]) place[d] = pixel % w->out[d];
  return pixel;
}

uint32_t cad_window_each(const cad_call *c, const cad_window *w, int64_t length, double cost,
                         void (*fn)(void *user, size_t begin, size_t end), void *user,
                         cad_patches *patches) {
  const int64_t pixels = cad_window_pixels(w);
  const int64_t most = length < PATCHES ? PATCHES / (length + 1) : 1;
  const int64_t block = most < pixels ? most : pixels;
  patches->length = length;
  EC_BACKEND_TRY(EC_ARG_SCRATCH(c, block * length, sizeof(float), &patches->memory));
  for (patches->first = 0; patches->first < pixels; patches->first += block) {
    const int64_t left = pixels - patches->first;
    EC_ARG_PARALLEL(c, left < block ? left : block, cost, fn, user);
  }
  return EC_BACKEND_OK;
}

/* Sets the offset of a tap in one dimension; false outside of the image. */
static bool tap_offset(const cad_window *w, size_t d, int64_t place, int64_t tap,
                       int64_t *offset) {
  const int64_t from = place * w->stride[d] - w->padding[d] + tap * w->dilation[d];
  const int64_t pixel = w->up[d] == 1 ? from : from / w->up[d];
  *offset = pixel * w->by_pixel[d];
  return from >= 0 && pixel < w->in[d] && (w->up[d] == 1 || from % w->up[d] == 0);
}

/* Copies the channels under one tap. */
static void patch_tap(const cad_window *w, const float *from, int64_t tap, float *patch) {
  float *to = patch + (w->taps_first ? tap * w->group_in : tap);
  const int64_t step = w->taps_first ? 1 : w->taps;
  for (int64_t k = 0; k < w->group_in; k++)
    to[k * step] = from ? from[k * w->by_channel] : w->fill;
}

void cad_window_patch(const cad_window *w, int64_t pixel, int64_t group, float *patch) {
  int64_t place[CAD_SPACE], offsets[CAD_SPACE], tap = 0;
  const int64_t image = cad_window_place(w, pixel, place);
  const float *x = w->x + image * w->by_image + group * w->group_in * w->by_channel;
  for (int64_t i = 0; i < w->kernel[0]; i++) {
    const bool deep = tap_offset(w, 0, place[0], i, &offsets[0]);
    for (int64_t k = 0; k < w->kernel[1]; k++) {
      const bool high = deep && tap_offset(w, 1, place[1], k, &offsets[1]);
      for (int64_t l = 0; l < w->kernel[2]; l++, tap++) {
        const bool inside = high && tap_offset(w, 2, place[2], l, &offsets[2]);
        patch_tap(w, inside ? x + offsets[0] + offsets[1] + offsets[2] : NULL, tap, patch);
      }
    }
  }
}
