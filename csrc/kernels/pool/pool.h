/* Pooling over windows of one to three dimensions. Each axis has a table with a window per output,
 * so that only the construction of the tables knows padding, dilation, ceil_mode, adaptive and
 * random windows. Axes that a call does not have are of size 1. */
#ifndef EC_KERNELS_POOL_POOL_H
#define EC_KERNELS_POOL_POOL_H

#include "kernels/call.h"

enum { EC_POOL_AXES = 3, EC_POOL_RANK = EC_POOL_AXES + 2 };

/* The part of a window inside the input: positions first, first + step, ... */
typedef struct ec_window {
  int64_t first, count, step;
  int64_t size; /* its size for an average, including padding if requested */
} ec_window;

/* One axis of a call. */
typedef struct ec_pool_axis {
  int64_t in, out, kernel, stride, padding, dilation;
  ec_window *windows; /* one per output */
} ec_pool_axis;

/* A pooling. Strides are in elements: batch, channel, depth, height, width. */
typedef struct ec_pool {
  ec_dtype dtype;
  size_t axes; /* number of axes of the operator: the last ones of `axis` */
  int64_t batch, channels;
  ec_pool_axis axis[EC_POOL_AXES];
  int64_t in_stride[EC_POOL_RANK], out_stride[EC_POOL_RANK];
  const void *from; /* the input; backward: gradients of the results */
  void *to;         /* the results; backward: gradients of the input */
  int64_t *indices; /* of max pooling, in the plane, with strides index_stride */
  int64_t index_stride[EC_POOL_RANK];
  int64_t divisor; /* of average pooling; 0: the size of the window */
} ec_pool;

/* Positions of arguments in the schema; 0 (except `self`): none. Without a kernel the windows cover
 * the input evenly. */
typedef struct ec_pool_args {
  size_t axes, self, kernel, stride, padding, dilation, ceil_mode, include_pad, divisor;
  size_t size, samples, indices, out;
} ec_pool_args;

/* Checks dtype and rank of `self`, whose spatial sizes may not be 0, and reads its sizes. */
ec_status ec_pool_input(ec_call *c, const ec_pool_args *args, ec_pool *p);

/* Reads and checks the lists of a pooling, and computes output sizes in p->axis. */
ec_status ec_pool_read(ec_call *c, const ec_pool_args *args, ec_pool *p);

/* Reads `size`, exactly one number per axis, into the axes' `out`. */
ec_status ec_pool_read_size(ec_call *c, const ec_pool_args *args, ec_pool *p);

/* Computes the pooled shape, with room for EC_POOL_RANK sizes. Returns its rank. */
size_t ec_pool_sizes(const ec_call *c, const ec_pool_args *args, const ec_pool *p, int64_t *sizes);

/* Resizes argument `i` to the pooled shape. */
ec_status ec_pool_resize(ec_call *c, const ec_pool_args *args, const ec_pool *p, size_t i);

/* Fills the tables (in scratch), from the lists or evenly. */
ec_status ec_pool_windows(ec_call *c, const ec_pool_args *args, ec_pool *p);

/* Computes the strides of a tensor with a batch or of one image. */
void ec_pool_strides(const ec_pool *p, const ec_tensor *t, int64_t strides[EC_POOL_RANK]);

/* Sets the memory of the input and of the results, which are already resized. */
void ec_pool_bind(ec_call *c, const ec_pool_args *args, ec_pool *p);

/* Runs max pooling plane by plane, for windows that differ between planes. */
void ec_pool_max_planes(const ec_pool *p);

/* Runs a loop over the whole pool, or on the method's threads over parts of its outputs, each as a
 * separate pool with `scratch` bytes of memory. `side_by_side`: the loop processes all channels of
 * a position. */
typedef void (*ec_pool_fn)(const ec_pool *p, void *scratch);
ec_status ec_pool_run(ec_call *c, const ec_pool *p, ec_pool_fn fn, bool side_by_side,
                      size_t scratch);

#endif
