/* Pooling over windows of one to three dimensions. Each axis has a table of windows, one for each
 * output, so that padding, dilation, ceil_mode, adaptive and random windows end where the tables
 * are made; axes that a call does not have are of size 1. */
#ifndef EC_KERNELS_POOL_POOL_H
#define EC_KERNELS_POOL_POOL_H

#include "kernels/call.h"

enum { EC_POOL_AXES = 3, EC_POOL_RANK = EC_POOL_AXES + 2 };

/* The part of a window that lies inside the input: positions first, first + step, ... */
typedef struct ec_window {
  int64_t first, count, step;
  int64_t size; /* what it counts for an average, padding included where wanted */
} ec_window;

/* One axis of a call. */
typedef struct ec_pool_axis {
  int64_t in, out, kernel, stride, padding, dilation;
  ec_window *windows; /* one for each output */
} ec_pool_axis;

/* Strides, in elements: batch, channel, depth, height, width. */
typedef struct ec_pool {
  ec_dtype dtype;
  size_t axes; /* that the operator has: the last ones of `axis` */
  int64_t batch, channels;
  ec_pool_axis axis[EC_POOL_AXES];
  int64_t in_stride[EC_POOL_RANK], out_stride[EC_POOL_RANK];
  const void *from; /* what is pooled; backward: gradients of the results */
  void *to;         /* results; backward: gradients of what was pooled */
  int64_t *indices; /* of max pooling, in the plane; laid out by index_stride */
  int64_t index_stride[EC_POOL_RANK];
  int64_t divisor; /* of average pooling: 0: the window's size */
} ec_pool;

/* Where arguments stand in the schema; 0 (but for `self`): there is none. Without a kernel the
 * windows cover the input evenly. */
typedef struct ec_pool_args {
  size_t axes, self, kernel, stride, padding, dilation, ceil_mode, include_pad, divisor;
  size_t size, samples, indices, out;
} ec_pool_args;

/* Checks dtypes and the rank of `self`, whose spatial sizes may not be 0, and takes its sizes. */
ec_status ec_pool_input(ec_call *c, const ec_pool_args *args, ec_pool *p);

/* Reads and checks the lists of a pooling; output sizes are in p->axis afterwards. */
ec_status ec_pool_read(ec_call *c, const ec_pool_args *args, ec_pool *p);

/* Reads `size`, exactly one number for each axis, into the axes' `out`. */
ec_status ec_pool_read_size(ec_call *c, const ec_pool_args *args, ec_pool *p);

/* The pooled shape: its rank; `sizes` has room for EC_POOL_RANK. */
size_t ec_pool_sizes(const ec_call *c, const ec_pool_args *args, const ec_pool *p, int64_t *sizes);

/* Resizes argument `i` to the pooled shape. */
ec_status ec_pool_resize(ec_call *c, const ec_pool_args *args, const ec_pool *p, size_t i);

/* Fills the tables (scratch), from the lists or evenly. */
ec_status ec_pool_windows(ec_call *c, const ec_pool_args *args, ec_pool *p);

/* Strides of a tensor of a batch or of one image. */
void ec_pool_strides(const ec_pool *p, const ec_tensor *t, int64_t strides[EC_POOL_RANK]);

/* Takes the memory of the results, resized before, and the input's. */
void ec_pool_bind(ec_call *c, const ec_pool_args *args, ec_pool *p);

/* Max pooling of every plane, with no channels side by side: for windows of one plane's own. */
void ec_pool_max_planes(const ec_pool *p);

/* Runs a loop over the whole pool, or on the method's threads over parts of its outputs, each a
 * pool of its own: `scratch` bytes of memory for each. `side_by_side`: the loop wants all channels
 * of a position. */
typedef void (*ec_pool_fn)(const ec_pool *p, void *scratch);
ec_status ec_pool_run(ec_call *c, const ec_pool *p, ec_pool_fn fn, bool side_by_side,
                      size_t scratch);

#endif
