/* Operators that read each output from listed positions of the input's last dimensions, its axes:
 * moved as they are (nearest neighbours, padding), or several of them weighed. */
#ifndef EC_KERNELS_RESIZE_RESIZE_H
#define EC_KERNELS_RESIZE_RESIZE_H

#include "kernels/copy.h"

enum { EC_RESIZE_AXES = 3, EC_RESIZE_RANK = EC_RESIZE_AXES + 2 };

/* An axis, and where its outputs read: `width` entries for each, of which `counts` are used; or
 * those from `starts` on. */
typedef struct ec_axis {
  int64_t in, out;
  double factor; /* that the program gives; 0: the ratio of the sizes */
  int64_t width;
  int64_t *at;
  double *weights;
  int64_t *counts, *starts;
  int shift; /* weights of bytes are integers, scaled by 2 to this */
} ec_axis;

/* One call. Memory is looked at as batch, channels, depth, height, width; axes that a tensor does
 * not have come first and have one position. */
typedef struct ec_resize {
  size_t axes; /* that the tensors have */
  ec_axis axis[EC_RESIZE_RANK]; /* by dimension; none of the first two */
  ec_view in, to;
  bool batched;
} ec_resize;

/* Argument 0 with `axes` axes and channels; `batched`: it must have a batch, too. */
ec_status ec_resize_input(ec_call *c, size_t out, size_t axes, bool batched, ec_resize *r);

/* Gives the output its sizes: those of the input, and the axes'. */
ec_status ec_resize_output(ec_call *c, size_t out, ec_resize *r);

/* Room for the axis' positions, zeros. */
ec_status ec_resize_positions(ec_call *c, ec_axis *a);

/* Moves elements of any dtype; each axis has positions, `width` is 1. */
void ec_resize_move(const ec_resize *r);

typedef enum ec_filter { EC_LINEAR, EC_CUBIC, EC_LANCZOS } ec_filter;

/* Fills the tables of an axis with a filter's weights, as eager computes them for that dtype;
 * `antialias`: the filter is as wide as the axis shrinks. */
ec_status ec_resize_weights(ec_call *c, ec_axis *a, ec_dtype dtype, bool align, ec_filter filter,
                            bool antialias);

/* The first entry of an output. */
static inline int64_t ec_axis_entry(const ec_axis *a, int64_t output) {
  return a->starts ? a->starts[output] : output * a->width;
}

/* Turns an axis with its tables around: outputs become inputs, with the same weights. */
ec_status ec_resize_transpose(ec_call *c, ec_axis *a);

/* Weighs the input into the output, an axis after the other. */
ec_status ec_resize_weigh(ec_call *c, const ec_resize *r);

#endif
