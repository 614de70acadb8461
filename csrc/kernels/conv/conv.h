/* Convolution: how a call looks after its checks, and the phases that it is computed in.
 *
 * A forward convolution is one phase. A transposed one with stride s falls into s phases an axis:
 * the outputs at positions p, p + s, p + 2s, ... depend on every s-th element of the kernel only,
 * and are a forward convolution of stride 1 with those. So one engine serves both. */
#ifndef EC_KERNELS_CONV_CONV_H
#define EC_KERNELS_CONV_CONV_H

#include "kernels/call.h"
#include "kernels/linalg/gemm.h"

enum { EC_CONV_AXES = 3 }; /* depth, height, width; missing ones have size 1 */

/* One spatial dimension as called; strides in elements. */
typedef struct ec_conv_axis {
  int64_t in, out, kernel, stride, padding, dilation, output_padding;
  int64_t in_stride, out_stride, weight_stride;
} ec_conv_axis;

typedef struct ec_conv {
  ec_dtype dtype;
  bool transposed;
  size_t axes; /* that the call has: the last ones of `axis` */
  int64_t batch, groups, in_channels, out_channels; /* channels of one group */
  int64_t in_batch, in_group, in_channel, out_batch, out_channel;
  int64_t weight_group, weight_in, weight_out; /* strides between groups and channels */
  const void *input, *weight, *bias;
  void *out;
  ec_conv_axis axis[EC_CONV_AXES];
} ec_conv;

/* One axis of one phase: output o reads input o * step + first + shift[t] for each tap t. */
typedef struct ec_conv_line {
  int64_t in, in_stride, out, out_stride, step, first, taps;
  int64_t *shift, *weight; /* of each tap: in the input's positions, in the weight's elements */
} ec_conv_line;

typedef struct ec_conv_phase {
  ec_conv_line line[EC_CONV_AXES];
  int64_t out_offset;                   /* elements to its first output */
  int64_t channels, channel_stride;     /* of one group of the input */
  int64_t taps;
  bool channels_last;                   /* k counts taps outside, channels inside */
  const void *zeros;                    /* `channels` zeros: what stands outside the input */
  const int64_t *weights;               /* offset of the weight's element for each k */
} ec_conv_phase;

/* Consecutive output positions of one row, as lanes of a panel. */
typedef struct ec_conv_run {
  int64_t lane, count, at[EC_CONV_AXES]; /* input position of the first one, without taps */
} ec_conv_run;

/* Splits a panel's lanes into runs; there is room for EC_MICRO_LANES of them. */
size_t ec_conv_runs(const ec_conv_phase *phase, const ec_gemm_panel *panel, ec_conv_run *runs);

/* The loops by dtype: input and weight as sides of the matrix product, depthwise convolution of
 * one phase of one image, and the plain convolution. */
typedef struct ec_conv_loops {
  ec_gemm_pack rows, channels, weights;
  void (*depthwise_rows)(const ec_conv *conv, const ec_conv_phase *phase, int64_t image,
                         void *sums);
  void (*depthwise_channels)(const ec_conv *conv, const ec_conv_phase *phase, int64_t image,
                             void *sums);
  void (*reference)(const ec_conv *conv);
} ec_conv_loops;

extern const ec_conv_loops ec_conv_loops_of[EC_DTYPE_COUNT];

/* Where a call's arguments from `input` to `groups` stand, but for the bias. */
typedef struct ec_conv_args {
  size_t input, weight, stride, padding, dilation, transposed, output_padding, groups;
} ec_conv_args;

/* Reads and checks them: all but the bias and what belongs to the output. */
ec_status ec_conv_read(ec_call *c, const ec_conv_args *args, ec_conv *conv);

/* The shape of the output: its rank; `sizes` has room for EC_CONV_AXES + 2. */
size_t ec_conv_sizes(const ec_conv *conv, int64_t *sizes);

/* Takes memory and strides of a tensor of the output's shape. */
void ec_conv_set_output(ec_conv *conv, const ec_tensor *out);

/* Runs a checked convolution with a non-empty output. */
ec_status ec_conv_compute(ec_call *c, const ec_conv *conv);

/* The same by matrix products or depthwise loops. */
ec_status ec_conv_run_fast(ec_call *c, const ec_conv *conv);

#endif
