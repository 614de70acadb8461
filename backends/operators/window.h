/* One dimension of a window over an image: of convolutions, transposed ones and pools. */
#ifndef EC_OPERATORS_WINDOW_H
#define EC_OPERATORS_WINDOW_H

#include <stdbool.h>
#include <stdint.h>

typedef struct ec_axis {
  int64_t in, out; /* pixels */
  int64_t kernel, stride, dilation;
  int64_t before, after; /* padding; what a transposed convolution removes */
  bool transposed;       /* the stride is the distance of the image's pixels */
} ec_axis;

/* Sets the output's size; less than 1: the kernel does not fit. With `ceil_mode`, the last window
 * begins inside the image or the padding before it (ATen). `extra` is for transposed ones. */
static inline void ec_axis_fit(ec_axis *a, bool ceil_mode, int64_t extra) {
  const int64_t reach = a->dilation * (a->kernel - 1) + 1;
  const int64_t room = a->in + a->before + a->after - reach;
  if (a->transposed) a->out = (a->in - 1) * a->stride - a->before - a->after + reach + extra;
  else a->out = room < 0 ? 0 : (room + (ceil_mode ? a->stride - 1 : 0)) / a->stride + 1;
  if (ceil_mode && (a->out - 1) * a->stride >= a->in + a->before) a->out--;
}

/* Finds the pixel under a tap of the window of an output. Returns false in the padding, or between
 * the pixels of a transposed convolution. */
static inline bool ec_axis_pixel(const ec_axis *a, int64_t out, int64_t tap, int64_t *in) {
  const int64_t at = a->transposed ? out + a->before - tap * a->dilation
                                   : out * a->stride - a->before + tap * a->dilation;
  *in = a->transposed ? at / a->stride : at;
  return at >= 0 && *in < a->in && (!a->transposed || at % a->stride == 0);
}

/* The pixels under a window that lie inside the image: from `begin`, in steps of the dilation. */
typedef struct ec_span {
  int64_t begin, end;
} ec_span;

static inline ec_span ec_axis_span(const ec_axis *a, int64_t out) {
  const int64_t first = out * a->stride - a->before, step = a->dilation;
  const int64_t last = first + step * (a->kernel - 1) + 1;
  const int64_t before = first < 0 ? (-first + step - 1) / step * step : 0;
  return (ec_span){first + before, last < a->in ? last : a->in};
}

#endif
