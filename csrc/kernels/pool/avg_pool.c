/* avg_pool and adaptive_avg_pool in one to three dimensions. */
#include <string.h>

#include "core/simd.h"
#include "core/template.h"
#include "kernels/copy.h"
#include "kernels/pool/pool.h"

#define EC_TEMPLATE "kernels/pool/avg_pool.tmpl.h"
#include "core/dtype/float32.h"
#include "core/dtype/float64.h"
#include "core/dtype/int64.h"
#undef EC_TEMPLATE

static const ec_pool_fn planes[EC_DTYPE_COUNT] = {EC_ROWS_WIDE(avg_planes),
                                              [EC_INT64] = EC_KEEP(int64, avg_planes_int64)};
static const ec_pool_fn channels[EC_DTYPE_COUNT] = {EC_ROWS_WIDE(avg_channels),
                                                [EC_INT64] = EC_KEEP(int64, avg_channels_int64)};

static ec_status compute_avg_pool(ec_call *c, const ec_pool *p) {
  bool inner = p->in_stride[1] == 1 && p->channels >= 4 && !c->reference;
  if (!inner) return ec_pool_run(c, p, planes[p->dtype], false, 0);
  return ec_pool_run(c, p, channels[p->dtype], true, (size_t)p->channels * sizeof(double));
}

/* Pools float16 and bfloat16 as float32; each average rounds once, at the end. */
static ec_status pool_halves(ec_call *c, ec_pool *p, const ec_tensor *self, ec_tensor *out) {
  ec_tensor from, to;
  EC_TRY(ec_call_like(c, self, EC_FLOAT32, &from));
  EC_TRY(ec_call_like(c, out, EC_FLOAT32, &to));
  ec_copy_cast(c, &from, self);
  p->dtype = EC_FLOAT32;
  p->from = from.data;
  p->to = to.data;
  EC_TRY(compute_avg_pool(c, p));
  ec_copy_cast(c, out, &to);
  return EC_OK;
}

static ec_status run_avg_pool(ec_call *c, const ec_pool_args *args) {
  const ec_tensor *self = ec_arg_tensor(c, args->self);
  ec_tensor *out = ec_arg_tensor(c, args->out);
  ec_pool p;
  EC_TRY(ec_pool_input(c, args, &p));
  EC_TRY((args->kernel ? ec_pool_read : ec_pool_read_size)(c, args, &p));
  EC_TRY(ec_pool_resize(c, args, &p, args->out));
  if (out->numel == 0) return EC_OK;
  EC_TRY(ec_pool_windows(c, args, &p));
  ec_pool_bind(c, args, &p);
  return ec_dtype_in(p.dtype, EC_SET_HALF) ? pool_halves(c, &p, self, out)
                                           : compute_avg_pool(c, &p);
}

ec_status ec_op_avg_pool1d_out(ec_call *c) {
  return run_avg_pool(c, &(ec_pool_args){.axes = 1, .kernel = 1, .stride = 2, .padding = 3,
                                         .ceil_mode = 4,
                                         .include_pad = 5, .out = 6});
}

/* avg_pool2d and avg_pool3d */
static ec_status avg_pool(ec_call *c, size_t axes) {
  return run_avg_pool(c, &(ec_pool_args){.axes = axes, .kernel = 1, .stride = 2, .padding = 3,
                                         .ceil_mode = 4, .include_pad = 5, .divisor = 6, .out = 7});
}

ec_status ec_op_avg_pool2d_out(ec_call *c) { return avg_pool(c, 2); }

ec_status ec_op_avg_pool3d_out(ec_call *c) { return avg_pool(c, 3); }

static ec_status adaptive_avg_pool(ec_call *c, size_t axes) {
  return run_avg_pool(c, &(ec_pool_args){.axes = axes, .size = 1, .out = 2});
}

ec_status ec_op_adaptive_avg_pool1d_out(ec_call *c) { return adaptive_avg_pool(c, 1); }

ec_status ec_op_adaptive_avg_pool2d_out(ec_call *c) { return adaptive_avg_pool(c, 2); }

ec_status ec_op_adaptive_avg_pool3d_out(ec_call *c) { return adaptive_avg_pool(c, 3); }
