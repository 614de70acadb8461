/* max_pool with indices, adaptive_max_pool in two and three dimensions. */
#include <string.h>

#include "core/simd.h"
#include "core/template.h"
#include "kernels/pool/pool.h"

#define EC_TEMPLATE "kernels/pool/max_pool.tmpl.h"
#include "core/foreach/floating.h"
#include "core/dtype/uint8.h"
#include "core/dtype/int8.h"
#include "core/dtype/int16.h"
#include "core/dtype/int32.h"
#include "core/dtype/int64.h"
#undef EC_TEMPLATE

#define ROWS(fn)                                                                                   \
  {EC_ROWS_FLOATING(fn), [EC_UINT8] = EC_KEEP(uint8, fn##_uint8),                                  \
   [EC_INT8] = EC_KEEP(int8, fn##_int8),    [EC_INT16] = EC_KEEP(int16, fn##_int16),               \
   [EC_INT32] = EC_KEEP(int32, fn##_int32), [EC_INT64] = EC_KEEP(int64, fn##_int64)}

static const ec_pool_fn planes[EC_DTYPE_COUNT] = ROWS(max_planes);
static const ec_pool_fn channels[EC_DTYPE_COUNT] = ROWS(max_channels);

void ec_pool_max_planes(const ec_pool *p) { planes[p->dtype](p, NULL); }

/* True if positions of a plane fit the fast loop's indices. */
static bool is_small(const ec_pool *p) {
  const ec_pool_axis *a = p->axis;
  return a[0].in <= INT32_MAX / a[1].in && a[0].in * a[1].in <= INT32_MAX / a[2].in;
}

static ec_status run_max_pool(ec_call *c, const ec_pool_args *args) {
  ec_pool p;
  EC_TRY(ec_pool_input(c, args, &p));
  EC_TRY((args->kernel ? ec_pool_read : ec_pool_read_size)(c, args, &p));
  EC_TRY(ec_pool_resize(c, args, &p, args->out));
  EC_TRY(ec_pool_resize(c, args, &p, args->indices));
  if (ec_arg_tensor(c, args->out)->numel == 0) return EC_OK;
  EC_TRY(ec_pool_windows(c, args, &p));
  ec_pool_bind(c, args, &p);
  bool inner = p.in_stride[1] == 1 && p.channels >= 4 && !c->reference;
  if (!inner || !is_small(&p)) return ec_pool_run(c, &p, planes[p.dtype], false, 0);
  size_t room = ((size_t)p.channels + 16) * (sizeof(int32_t) + sizeof(double));
  return ec_pool_run(c, &p, channels[p.dtype], true, room);
}

static ec_status max_pool(ec_call *c, size_t axes) {
  return run_max_pool(c, &(ec_pool_args){.axes = axes, .kernel = 1, .stride = 2, .padding = 3,
                                         .dilation = 4, .ceil_mode = 5, .out = 6, .indices = 7});
}

ec_status ec_op_max_pool2d_with_indices_out(ec_call *c) { return max_pool(c, 2); }

ec_status ec_op_max_pool3d_with_indices_out(ec_call *c) { return max_pool(c, 3); }

static ec_status adaptive_max_pool(ec_call *c, size_t axes) {
  return run_max_pool(c, &(ec_pool_args){.axes = axes, .size = 1, .out = 2, .indices = 3});
}

ec_status ec_op_adaptive_max_pool2d_out(ec_call *c) { return adaptive_max_pool(c, 2); }

ec_status ec_op_adaptive_max_pool3d_out(ec_call *c) { return adaptive_max_pool(c, 3); }
