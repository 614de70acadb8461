/* fractional_max_pool: every plane has its own random windows, from one sample per axis. */
#include <inttypes.h>

#include "core/checked.h"
#include "core/template.h"
#include "kernels/pool/pool.h"

#define EC_TEMPLATE "kernels/pool/fractional_pool.tmpl.h"
#include "core/foreach/floating.h"
#undef EC_TEMPLATE

typedef bool (*windows_fn)(const ec_pool_axis *a, const void *sample);

static const windows_fn windows[EC_DTYPE_COUNT] = {EC_ROWS_FLOATING(fractional_windows)};

/* Reads the windows, one per output. In three dimensions eager requires one position more. */
static ec_status read_kernel(ec_call *c, const ec_pool_args *args, ec_pool *p) {
  ec_ints kernel;
  EC_TRY(ec_arg_ints(c, args->kernel, &kernel));
  if (kernel.n != args->axes)
    return ec_call_fail(c, args->kernel, "%zu numbers, expected %zu", kernel.n, args->axes);
  for (size_t d = 0; d < args->axes; d++) {
    ec_pool_axis *a = &p->axis[EC_POOL_AXES - args->axes + d];
    a->kernel = kernel.v[d];
    int64_t most = a->in - a->out + (args->axes == 3 ? 0 : 1);
    if (a->kernel >= 1 && a->kernel <= ec_min_i64(most, a->in)) continue;
    return ec_call_fail(c, args->kernel, "found %" PRId64 ", expected a positive size of which %"
                        PRId64 " windows fit an input of size %" PRId64, a->kernel, a->out, a->in);
  }
  return EC_OK;
}

static ec_status check_samples(ec_call *c, const ec_pool_args *args, const ec_pool *p) {
  const ec_tensor *t = ec_arg_tensor(c, args->samples);
  EC_TRY(ec_call_check_rank(c, args->samples, 3, 3));
  if (t->sizes[0] >= p->batch && t->sizes[1] == p->channels && t->sizes[2] == (int64_t)args->axes)
    return EC_OK;
  char text[EC_SHAPE_TEXT];
  return ec_call_fail(c, args->samples, "shape %s, expected (%" PRId64 ", %" PRId64 ", %zu)",
                      ec_shape_text(t->sizes, 3, text, sizeof text), p->batch, p->channels,
                      args->axes);
}

/* Computes the windows of one plane. Samples are in the order of the axes, in two dimensions
 * reversed. */
static ec_status draw_windows(ec_call *c, const ec_pool_args *args, const ec_pool *p, int64_t n,
                              int64_t channel) {
  const ec_tensor *t = ec_arg_tensor(c, args->samples);
  for (size_t d = 0; d < args->axes; d++) {
    size_t s = args->axes == 2 ? 1 - d : d;
    int64_t at = n * t->strides[0] + channel * t->strides[1] + (int64_t)s * t->strides[2];
    const void *sample = (const char *)t->data + at * (int64_t)ec_dtype_size(p->dtype);
    if (!windows[p->dtype](&p->axis[EC_POOL_AXES - args->axes + d], sample))
      return ec_call_fail(c, args->samples, "the number at (%" PRId64 ", %" PRId64
                          ", %zu) puts a window outside the input, expected one in [0, 1)",
                          n, channel, s);
  }
  return EC_OK;
}

static ec_status run_fractional_pool(ec_call *c, const ec_pool_args *args) {
  ec_pool p;
  EC_TRY(ec_pool_input(c, args, &p));
  EC_TRY(ec_pool_read_size(c, args, &p));
  EC_TRY(read_kernel(c, args, &p));
  EC_TRY(check_samples(c, args, &p));
  EC_TRY(ec_pool_resize(c, args, &p, args->out));
  EC_TRY(ec_pool_resize(c, args, &p, args->indices));
  if (ec_arg_tensor(c, args->out)->numel == 0) return EC_OK;
  EC_TRY(ec_pool_windows(c, &(ec_pool_args){.axes = args->axes}, &p));
  ec_pool_bind(c, args, &p);
  ec_pool plane = p;
  plane.batch = plane.channels = 1;
  int64_t size = (int64_t)ec_dtype_size(p.dtype);
  for (int64_t n = 0; n < p.batch; n++)
    for (int64_t i = 0; i < p.channels; i++) {
      EC_TRY(draw_windows(c, args, &p, n, i));
      plane.from = (const char *)p.from + (n * p.in_stride[0] + i * p.in_stride[1]) * size;
      plane.to = (char *)p.to + (n * p.out_stride[0] + i * p.out_stride[1]) * size;
      plane.indices = p.indices + n * p.index_stride[0] + i * p.index_stride[1];
      ec_pool_max_planes(&plane);
    }
  return EC_OK;
}

static ec_status fractional_max_pool(ec_call *c, size_t axes) {
  return run_fractional_pool(c, &(ec_pool_args){.axes = axes, .kernel = 1, .size = 2, .samples = 3,
                                                .out = 4,
                                                .indices = 5});
}

ec_status ec_op_fractional_max_pool2d_output(ec_call *c) { return fractional_max_pool(c, 2); }

ec_status ec_op_fractional_max_pool3d_output(ec_call *c) { return fractional_max_pool(c, 3); }
