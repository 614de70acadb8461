/* avg_pool and adaptive_avg_pool in one to three dimensions. */
#include <string.h>

#include "core/simd.h"
#include "core/template.h"
#include "kernels/pool/pool.h"

#define EC_TEMPLATE "kernels/pool/avg_pool.tmpl.h"
#include "core/foreach/floating.h"
#include "core/dtype/int64.h"
#undef EC_TEMPLATE

typedef void (*avg_fn)(const ec_pool *p, void *scratch);

static const avg_fn planes[EC_DTYPE_COUNT] = {EC_ROWS_FLOATING(avg_planes),
                                              [EC_INT64] = avg_planes_int64};
static const avg_fn channels[EC_DTYPE_COUNT] = {EC_ROWS_FLOATING(avg_channels),
                                                [EC_INT64] = avg_channels_int64};

static ec_status run(ec_call *c, const ec_pool_args *args) {
  ec_pool p;
  EC_TRY(ec_pool_input(c, args, &p));
  EC_TRY((args->kernel ? ec_pool_read : ec_pool_read_size)(c, args, &p));
  EC_TRY(ec_pool_resize(c, args, &p, args->out));
  if (ec_arg_tensor(c, args->out)->numel == 0) return EC_OK;
  EC_TRY(ec_pool_windows(c, args, &p));
  ec_pool_take(c, args, &p);
  bool inner = p.in_stride[1] == 1 && p.channels >= 4 && !c->reference;
  if (!inner) {
    planes[p.dtype](&p, NULL);
    return EC_OK;
  }
  void *scratch;
  EC_TRY(ec_call_scratch(c, (size_t)p.channels, sizeof(double), &scratch));
  channels[p.dtype](&p, scratch);
  return EC_OK;
}

ec_status ec_op_avg_pool1d_out(ec_call *c) {
  return run(c, &(ec_pool_args){.axes = 1, .kernel = 1, .stride = 2, .padding = 3, .ceil_mode = 4,
                                .include_pad = 5, .out = 6});
}

/* avg_pool2d and avg_pool3d */
static ec_status average(ec_call *c, size_t axes) {
  return run(c, &(ec_pool_args){.axes = axes, .kernel = 1, .stride = 2, .padding = 3,
                                .ceil_mode = 4, .include_pad = 5, .divisor = 6, .out = 7});
}

ec_status ec_op_avg_pool2d_out(ec_call *c) { return average(c, 2); }

ec_status ec_op_avg_pool3d_out(ec_call *c) { return average(c, 3); }

static ec_status adaptive(ec_call *c, size_t axes) {
  return run(c, &(ec_pool_args){.axes = axes, .size = 1, .out = 2});
}

ec_status ec_op_adaptive_avg_pool1d_out(ec_call *c) { return adaptive(c, 1); }

ec_status ec_op_adaptive_avg_pool2d_out(ec_call *c) { return adaptive(c, 2); }

ec_status ec_op_adaptive_avg_pool3d_out(ec_call *c) { return adaptive(c, 3); }
