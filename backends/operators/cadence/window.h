/* Windows over images of up to three dimensions, and the patches under them. */
#ifndef CADENCE_WINDOW_H
#define CADENCE_WINDOW_H

#include "../window.h"
#include "call.h"

enum { CAD_SPACE = 3 };

typedef struct cad_window {
  float *x; /* the image */
  int64_t images, channels, out_channels; /* at least one channel */
  ec_axis axes[CAD_SPACE];
  int64_t by_image, by_channel, by_pixel[CAD_SPACE]; /* strides of the image, in elements */
  int64_t groups, group_in, taps; /* channels of a group; positions of a window */
  size_t space;   /* dimensions besides images and channels */
  bool last;      /* channels are the last dimension */
  bool taps_first; /* a patch is [taps, channels], otherwise [channels, taps] */
  float fill;     /* outside of the image */
} cad_window;

/* Sets the sizes and strides of tensor 0; all other sizes are 1. */
uint32_t cad_window_image(const cad_call *c, const cad_tensor *t, bool last, cad_window *w);
/* Numbers of int[] arguments with an item for each dimension; 0: there is none. */
typedef struct cad_places {
  size_t kernel, stride, padding, dilation;
} cad_places;

/* Reads them for the last `space` dimensions. */
uint32_t cad_window_read(const cad_call *c, cad_places at, size_t space, cad_window *w);
/* Checks the kernel, and sets its taps and the output's sizes; `extra` is of transposed ones. */
uint32_t cad_window_size(const cad_call *c, bool ceil_mode, const int64_t extra[CAD_SPACE],
                         cad_window *w);

/* Returns the pixels of all outputs. */
int64_t cad_window_pixels(const cad_window *w);
/* Resizes output `i` to an image of the output's sizes. */
uint32_t cad_window_output(const cad_call *c, size_t i, uint32_t dtypes, const cad_window *w,
                           const cad_tensor **out);
/* Returns the index of the first channel of a pixel in the output, and the step to the next. */
int64_t cad_window_at(const cad_window *w, int64_t pixel, int64_t *step);
/* Sets the indices of a pixel in space and returns the number of its image. */
int64_t cad_window_place(const cad_window *w, int64_t pixel, int64_t place[CAD_SPACE]);
/* Memory for the patches of some pixels, the first of which is number `first`. */
typedef struct cad_patches {
  float *memory;
  int64_t length, first;
} cad_patches;

/* Calls fn(user, begin, end) for all pixels, numbered from patches->first on, with memory for a
 * patch of `length` floats each. */
uint32_t cad_window_each(const cad_call *c, const cad_window *w, int64_t length, double cost,
                         void (*fn)(void *user, size_t begin, size_t end), void *user,
                         cad_patches *patches);

/* Copies the patch of a group of channels under the window of an output pixel. */
void cad_window_patch(const cad_window *w, int64_t pixel, int64_t group, float *patch);

#endif
