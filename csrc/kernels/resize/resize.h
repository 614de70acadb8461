/* Operators that read each output from listed positions of the input's last dimensions, its axes:
 * elements are copied unchanged (nearest neighbours, padding), or several are weighted. */
#ifndef EC_KERNELS_RESIZE_RESIZE_H
#define EC_KERNELS_RESIZE_RESIZE_H

#include "kernels/copy.h"

enum { EC_RESIZE_AXES = 3, EC_RESIZE_RANK = EC_RESIZE_AXES + 2 };

/* An axis and the positions that its outputs read: per output `width` entries, `counts` of them
 * used; or consecutive positions from `starts` on. */
typedef struct ec_axis {
  int64_t in, out;
  double factor; /* given by the program; 0: the ratio of the sizes */
  int64_t width;
  int64_t *at;
  double *weights;
  int64_t *counts, *starts;
  int shift; /* weights of bytes are integers, scaled by 2 to this power */
} ec_axis;

/* One call. Memory is viewed as batch, channels, depth, height, width. Missing axes come first and
 * have one position. */
typedef struct ec_resize {
  size_t axes; /* number of axes of the tensors */
  ec_axis axis[EC_RESIZE_RANK]; /* by dimension; unused for the first two */
  ec_view in, to;
  bool batched;
} ec_resize;

/* Reads argument 0 with `axes` axes and channels; `batched`: a batch is required, too. */
ec_status ec_resize_input(ec_call *c, size_t out, size_t axes, bool batched, ec_resize *r);

/* Resizes the output to the input's sizes, with those of the axes. */
ec_status ec_resize_output(ec_call *c, size_t out, ec_resize *r);

/* Allocates the axis' positions, zeroed. */
ec_status ec_resize_positions(ec_call *c, ec_axis *a);

/* Copies elements of any dtype. Each axis has positions, `width` is 1. */
void ec_resize_move(const ec_resize *r);

typedef enum ec_filter { EC_LINEAR, EC_CUBIC, EC_LANCZOS } ec_filter;

/* Fills the tables of an axis with a filter's weights, as computed by eager for that dtype.
 * `antialias`: the filter widens by the factor by which the axis shrinks. */
ec_status ec_resize_weights(ec_call *c, ec_axis *a, ec_dtype dtype, bool align, ec_filter filter,
                            bool antialias);

/* Returns the first entry of an output. */
static inline int64_t ec_axis_entry(const ec_axis *a, int64_t output) {
  return a->starts ? a->starts[output] : output * a->width;
}

/* Transposes an axis with its tables: outputs become inputs, with the same weights. */
ec_status ec_resize_transpose(ec_call *c, ec_axis *a);

/* Computes the weighted sums of the input into the output, one axis at a time. */
ec_status ec_resize_weigh(ec_call *c, const ec_resize *r);

#endif
