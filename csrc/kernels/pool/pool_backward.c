/* Gradients of pooling inputs: each plane is summed, in scratch memory if the output's dtype cannot
 * hold the sums, and then stored. */
#include <inttypes.h>
#include <string.h>

#include "core/checked.h"
#include "core/template.h"
#include "kernels/pool/pool.h"

#define EC_TEMPLATE "kernels/pool/pool_backward.tmpl.h"
#include "core/foreach/floating.h"
#include "core/dtype/int64.h"
#undef EC_TEMPLATE

typedef const int64_t *(*backward_fn)(const ec_pool *p, void *sums);

static const backward_fn loops[EC_DTYPE_COUNT] = {EC_ROWS_FLOATING(backward),
                                                  [EC_INT64] = EC_KEEP(int64, backward_int64)};

enum { GRAD };

/* Reads the pooled sizes from the gradients. */
static ec_status read_pooled(ec_call *c, const ec_pool_args *args, ec_pool *p) {
  const ec_tensor *grad = ec_arg_tensor(c, GRAD);
  size_t rank = ec_arg_tensor(c, args->self)->rank;
  EC_TRY(ec_call_check_rank(c, GRAD, rank, rank));
  if (args->size) EC_TRY(ec_pool_read_size(c, args, p));
  for (size_t d = 0; d < args->axes && !args->size; d++)
    p->axis[EC_POOL_AXES - args->axes + d].out = grad->sizes[rank - args->axes + d];
  return EC_OK;
}

/* Checks that argument `i` has the pooled shape. */
static ec_status check_pooled(ec_call *c, const ec_pool_args *args, const ec_pool *p, size_t i) {
  const ec_tensor *t = ec_arg_tensor(c, i);
  int64_t sizes[EC_POOL_RANK];
  size_t rank = ec_pool_sizes(c, args, p, sizes);
  bool same = t->rank == rank;
  for (size_t d = 0; same && d < rank; d++) same = t->sizes[d] == sizes[d];
  char actual[EC_SHAPE_TEXT], expected[EC_SHAPE_TEXT];
  if (same) return EC_OK;
  return ec_call_fail(c, i, "shape %s, expected %s",
                      ec_shape_text(t->sizes, t->rank, actual, sizeof actual),
                      ec_shape_text(sizes, rank, expected, sizeof expected));
}

static ec_status run_pool_backward(ec_call *c, const ec_pool_args *args) {
  ec_pool p;
  int64_t plane = 1;
  void *sums;
  EC_TRY(ec_pool_input(c, args, &p));
  EC_TRY(ec_call_check_same_dtype(c, GRAD, args->self));
  EC_TRY((args->kernel ? ec_pool_read : read_pooled)(c, args, &p));
  EC_TRY(check_pooled(c, args, &p, GRAD));
  if (args->indices) EC_TRY(check_pooled(c, args, &p, args->indices));
  const ec_tensor *self = ec_arg_tensor(c, args->self), *grad = ec_arg_tensor(c, GRAD);
  ec_tensor *out = ec_arg_tensor(c, args->out);
  EC_TRY(ec_call_resize(c, args->out, self->rank, self->sizes));
  if (out->numel == 0) return EC_OK;
  EC_TRY(ec_pool_windows(c, args, &p));
  p.from = grad->data;
  p.to = out->data;
  ec_pool_strides(&p, out, p.in_stride);
  ec_pool_strides(&p, grad, p.out_stride);
  if (args->indices) {
    p.indices = ec_arg_tensor(c, args->indices)->data;
    ec_pool_strides(&p, ec_arg_tensor(c, args->indices), p.index_stride);
  }
  for (size_t d = 0; d < EC_POOL_AXES; d++) plane *= p.axis[d].in; /* of an existing output */
  EC_TRY(ec_call_scratch(c, (size_t)plane, sizeof(double), &sums));
  const int64_t *bad = loops[p.dtype](&p, sums);
  if (!bad) return EC_OK;
  return ec_call_fail(c, args->indices, "index %" PRId64 ", expected one of a plane of %" PRId64
                      " elements", *bad, plane);
}

static ec_status max_pool(ec_call *c, size_t axes) {
  return run_pool_backward(c, &(ec_pool_args){.axes = axes, .self = 1, .kernel = 2, .stride = 3,
                                              .padding = 4,
                                              .dilation = 5, .ceil_mode = 6, .indices = 7,
                                              .out = 8});
}

ec_status ec_op_max_pool2d_with_indices_backward_grad_input(ec_call *c) { return max_pool(c, 2); }

ec_status ec_op_max_pool3d_with_indices_backward_grad_input(ec_call *c) { return max_pool(c, 3); }

static ec_status avg_pool(ec_call *c, size_t axes) {
  return run_pool_backward(c, &(ec_pool_args){.axes = axes, .self = 1, .kernel = 2, .stride = 3,
                                              .padding = 4,
                                              .ceil_mode = 5, .include_pad = 6, .divisor = 7,
                                              .out = 8});
}

ec_status ec_op_avg_pool2d_backward_grad_input(ec_call *c) { return avg_pool(c, 2); }

ec_status ec_op_avg_pool3d_backward_grad_input(ec_call *c) { return avg_pool(c, 3); }

static ec_status adaptive_avg(ec_call *c, size_t axes) {
  return run_pool_backward(c, &(ec_pool_args){.axes = axes, .self = 1, .out = 2});
}

ec_status ec_op_adaptive_avg_pool2d_backward_out(ec_call *c) { return adaptive_avg(c, 2); }

ec_status ec_op_adaptive_avg_pool3d_backward_out(ec_call *c) { return adaptive_avg(c, 3); }

static ec_status adaptive_max(ec_call *c, size_t axes) {
  return run_pool_backward(c, &(ec_pool_args){.axes = axes, .self = 1, .indices = 2, .out = 3});
}

ec_status ec_op_adaptive_max_pool2d_backward_grad_input(ec_call *c) { return adaptive_max(c, 2); }

ec_status ec_op_adaptive_max_pool3d_backward_grad_input(ec_call *c) { return adaptive_max(c, 3); }

/* Ignores the kernel sizes, which are implied by the indices. */
static ec_status fractional_pool_backward(ec_call *c, size_t axes) {
  return run_pool_backward(c, &(ec_pool_args){.axes = axes, .self = 1, .size = 3, .indices = 4,
                                              .out = 5});
}

ec_status ec_op_fractional_max_pool2d_backward_grad_input(ec_call *c) {
  return fractional_pool_backward(c, 2);
}

ec_status ec_op_fractional_max_pool3d_backward_grad_input(ec_call *c) {
  return fractional_pool_backward(c, 3);
}
