/* Convolution: a call after its checks, and the phases of its computation.
 *
 * A forward convolution is one phase. A transposed one with stride s splits into s phases per axis:
 * the outputs at positions p, p + s, p + 2s, ... depend only on every s-th element of the kernel,
 * and are a forward convolution of stride 1 with those elements. One engine serves both. */
#ifndef EC_KERNELS_CONV_CONV_H
#define EC_KERNELS_CONV_CONV_H

#include "kernels/call.h"
#include "kernels/linalg/gemm.h"

enum { EC_CONV_AXES = 3 }; /* depth, height, width; missing ones have size 1 */

/* One spatial dimension of a call; strides in elements. */
typedef struct ec_conv_axis {
  int64_t in, out, kernel, stride, padding, dilation, output_padding;
  int64_t in_stride, out_stride, weight_stride;
} ec_conv_axis;

typedef struct ec_conv {
  ec_dtype dtype;
  bool transposed;
  size_t axes; /* number of axes of the call: the last ones of `axis` */
  int64_t batch, groups, in_channels, out_channels; /* channels of one group */
  int64_t in_batch, in_group, in_channel, out_batch, out_channel;
  int64_t weight_group, weight_in, weight_out; /* strides between groups and channels */
  const void *input, *weight, *bias;
  struct ec_kept *kept; /* packed weights of an earlier call; NULL: the weight is not constant */
  void *out;
  ec_conv_axis axis[EC_CONV_AXES];
} ec_conv;

/* One axis of a phase: output o reads input o * step + first + shift[t] for each tap t. */
typedef struct ec_conv_line {
  int64_t in, in_stride, out, out_stride, step, first, taps;
  int64_t *shift, *weight; /* per tap: offset in input positions, in elements of the weight */
} ec_conv_line;

typedef struct ec_conv_phase {
  ec_conv_line line[EC_CONV_AXES];
  int64_t out_offset;                   /* in elements, of its first output */
  int64_t channels, channel_stride;     /* of one group of the input */
  int64_t taps;
  int64_t adjacent;    /* positions from a row's or an image's start on that read adjacent elements
                        * with each tap; 0: it is not known */
  int64_t images, image_stride; /* of one product: all of a call, or one */
  bool turned;         /* the transposed product: lanes of vectors are output channels */
  bool channels_last;  /* k counts taps in the outer loop, channels in the inner one */
  const void *zeros;                    /* `channels` zeros: the padding */
  const int64_t *weights;               /* offset of the weight's element for each k */
} ec_conv_phase;

/* The loops by dtype: input and weight as sides of the matrix product, depthwise convolution of
 * one phase of one image, and the plain convolution. */
typedef void (*ec_conv_depthwise)(const ec_conv *conv, const ec_conv_phase *phase, int64_t image,
                                  void *sums);
typedef struct ec_conv_loops {
  ec_gemm_pack rows, channels, weights;
  ec_conv_depthwise depthwise_rows, depthwise_channels;
  bool (*has_nonfinite)(const ec_conv *conv); /* the weight */
  void (*reference)(const ec_conv *conv);
} ec_conv_loops;

extern const ec_conv_loops ec_conv_loops_of[EC_DTYPE_COUNT];

/* Returns the depthwise loop of float32 for adjacent columns (conv_depthwise.c); NULL: the call is
 * of another kind. */
ec_conv_depthwise ec_conv_rows_f32(const ec_conv *conv);

/* Lists what a panel of positions reads of one line: adjacent ones read adjacent
 * elements. */
void ec_conv_list_taps(const ec_gemm_side *side, const ec_gemm_panel *panel, ec_micro_taps *taps);

/* Packs a panel of positions of all images, of which p->adjacent ones at a time read one line. */
void ec_conv_pack_taps(const ec_gemm_side *side, const ec_gemm_panel *panel, size_t width,
                       void *packed);

/* Positions of a call's arguments from `input` to `groups`, without the bias. */
typedef struct ec_conv_args {
  size_t input, weight, stride, padding, dilation, transposed, output_padding, groups;
} ec_conv_args;

/* Reads and checks the arguments, except the bias and those that concern the output. */
ec_status ec_conv_read(ec_call *c, const ec_conv_args *args, ec_conv *conv);

/* Computes the shape of the output, with room for EC_CONV_AXES + 2 sizes. Returns its rank. */
size_t ec_conv_sizes(const ec_conv *conv, int64_t *sizes);

/* Sets memory and strides of the output from a tensor of its shape. */
void ec_conv_set_output(ec_conv *conv, const ec_tensor *out);

/* Runs a checked convolution with a non-empty output. */
ec_status ec_conv_compute(ec_call *c, const ec_conv *conv);

/* Runs it with matrix products or depthwise loops. */
ec_status ec_conv_run_fast(ec_call *c, const ec_conv *conv);

#endif
