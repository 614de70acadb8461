/* Pooling over windows of two dimensions. Each axis has a table of windows, one for each output,
 * so that padding, dilation, ceil_mode and adaptive windows end where the tables are made. */
#ifndef EC_KERNELS_POOL_POOL_H
#define EC_KERNELS_POOL_POOL_H

#include "kernels/call.h"

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

typedef struct ec_pool {
  ec_dtype dtype;
  bool reference;
  int64_t batch, channels;
  ec_pool_axis axis[2];
  int64_t in_stride[4], out_stride[4]; /* batch, channel, height, width, in elements */
  const void *in;
  void *out;
  int64_t *indices; /* of max pooling; laid out by index_stride */
  int64_t index_stride[4];
  int64_t divisor;  /* of average pooling: 0: the window's size */
} ec_pool;

/* Where the list arguments stand in the schema; 0: there is none. */
typedef struct ec_pool_args {
  size_t kernel, stride, padding, dilation, ceil_mode, out;
} ec_pool_args;

/* Reads and checks argument 0 and the lists; output sizes are in p->axis afterwards. */
ec_status ec_pool_read(ec_call *c, const ec_pool_args *args, ec_pool *p);

/* Checks argument 0, of rank 3 or 4 with only the batch allowed to be 0, and takes its sizes. */
ec_status ec_pool_input(ec_call *c, ec_pool *p);

/* Resizes output `i` to the pooled shape. */
ec_status ec_pool_resize(ec_call *c, const ec_pool *p, size_t i);

/* Fills the tables (scratch) of kernels that move by strides; include_padding: for averages. */
ec_status ec_pool_windows(ec_call *c, ec_pool *p, bool include_padding);

/* Strides of a tensor of rank 3 or 4 by batch, channel, height, width. */
void ec_pool_strides(const ec_tensor *t, int64_t strides[4]);

#endif
