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
    w->by_pixel[d] = real ? t->strides[from] : 0;
    w->axes[d] =
        (ec_axis){.in = real ? t->sizes[from] : 1, .kernel = 1, .stride = 1, .dilation = 1};
    if (w->axes[d].in < 1 || w->axes[d].in > LARGEST)
      return EC_ARG_FAIL(c, "'input' has %lld pixels in a dimension, expected 1 to %d",
                         (long long)w->axes[d].in, LARGEST);
  }
  if (w->channels < 1) return EC_ARG_FAIL(c, "'input' has no channels, expected 1 or more");
  return EC_BACKEND_OK;
}

uint32_t cad_window_read(const cad_call *c, cad_places at, size_t space, cad_window *w) {
  const struct {
    size_t i;
    const char *name;
    int64_t least;
    size_t member;
  } rows[] = {{at.kernel, "kernel_size", 1, offsetof(ec_axis, kernel)},
              {at.stride, "stride", 1, offsetof(ec_axis, stride)},
              {at.padding, "padding", 0, offsetof(ec_axis, before)},
              {at.padding, "padding", 0, offsetof(ec_axis, after)},
              {at.dilation, "dilation", 1, offsetof(ec_axis, dilation)}};
  int64_t items[CAD_SPACE];
  for (size_t r = 0; r < sizeof rows / sizeof *rows; r++) {
    if (!rows[r].i) continue;
    EC_BACKEND_TRY(cad_ints(c, rows[r].i, rows[r].name, rows[r].least, space, items));
    for (size_t d = 0; d < space; d++)
      memcpy((char *)&w->axes[CAD_SPACE - space + d] + rows[r].member, &items[d], sizeof *items);
  }
  return EC_BACKEND_OK;
}

uint32_t cad_window_size(const cad_call *c, bool ceil_mode, const int64_t extra[CAD_SPACE],
                         cad_window *w) {
  w->taps = 1;
  for (size_t d = 0; d < CAD_SPACE; d++) {
    const int64_t kernel = w->axes[d].kernel;
    if (kernel < 1 || kernel > CAD_MAX_EXTENT)
      return EC_ARG_FAIL(c, "the kernel has %lld taps in a dimension, expected 1 to %d",
                         (long long)kernel, CAD_MAX_EXTENT);
    w->taps *= kernel; /* at most 2^60 */
  }
  for (size_t d = 0; d < CAD_SPACE; d++) {
    ec_axis *a = &w->axes[d];
    ec_axis_fit(a, ceil_mode, extra ? extra[d] : 0);
    if (a->out < 1)
      return EC_ARG_FAIL(c, "a kernel of %lld does not fit an input of %lld", (long long)a->kernel,
                         (long long)a->in);
  }
  return EC_BACKEND_OK;
}

int64_t cad_window_pixels(const cad_window *w) {
  return w->images * w->axes[0].out * w->axes[1].out * w->axes[2].out;
}

uint32_t cad_window_output(const cad_call *c, size_t i, uint32_t dtypes, const cad_window *w,
                           const cad_tensor **out) {
  int64_t sizes[CAD_SPACE + 2] = {w->images};
  const size_t first = w->last ? 1 : 2, rank = w->space + 2;
  sizes[w->last ? rank - 1 : 1] = w->out_channels;
  for (size_t d = 0; d < w->space; d++) sizes[first + d] = w->axes[CAD_SPACE - w->space + d].out;
  return EC_ARG_OUTPUT(c, i, dtypes, rank, sizes, out);
}

int64_t cad_window_at(const cad_window *w, int64_t pixel, int64_t *step) {
  const int64_t pixels = w->axes[0].out * w->axes[1].out * w->axes[2].out;
  *step = w->last ? 1 : pixels;
  if (w->last) return pixel * w->out_channels;
  return pixel / pixels * pixels * w->out_channels + pixel % pixels;
}

int64_t cad_window_place(const cad_window *w, int64_t pixel, int64_t place[CAD_SPACE]) {
  for (size_t d = CAD_SPACE; d-- > 0; pixel /= w->axes[d].out) place[d] = pixel % w->axes[d].out;
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

/* Sets the offset of a tap in one dimension; false outside of the image. The flow has turned the
 * filters of transposed convolutions round. */
static bool tap_offset(const cad_window *w, size_t d, int64_t place, int64_t tap,
                       int64_t *offset) {
  const ec_axis *a = &w->axes[d];
  int64_t pixel;
  const bool inside = ec_axis_pixel(a, place, a->transposed ? a->kernel - 1 - tap : tap, &pixel);
  *offset = inside ? pixel * w->by_pixel[d] : 0;
  return inside;
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
  for (int64_t i = 0; i < w->axes[0].kernel; i++) {
    const bool deep = tap_offset(w, 0, place[0], i, &offsets[0]);
    for (int64_t k = 0; k < w->axes[1].kernel; k++) {
      const bool high = deep && tap_offset(w, 1, place[1], k, &offsets[1]);
      for (int64_t l = 0; l < w->axes[2].kernel; l++, tap++) {
        const bool inside = high && tap_offset(w, 2, place[2], l, &offsets[2]);
        patch_tap(w, inside ? x + offsets[0] + offsets[1] + offsets[2] : NULL, tap, patch);
      }
    }
  }
}
