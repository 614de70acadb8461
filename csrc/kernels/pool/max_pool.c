/* max_pool2d_with_indices. */
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

typedef void (*max_fn)(const ec_pool *p, void *scratch);

#define ROWS(fn)                                                                                   \
  {EC_ROWS_FLOATING(fn),       [EC_UINT8] = fn##_uint8, [EC_INT8] = fn##_int8,                     \
   [EC_INT16] = fn##_int16, [EC_INT32] = fn##_int32, [EC_INT64] = fn##_int64}

static const max_fn planes[EC_DTYPE_COUNT] = ROWS(max_planes);
static const max_fn channels[EC_DTYPE_COUNT] = ROWS(max_channels);

enum { SELF, KERNEL, STRIDE, PADDING, DILATION, CEIL_MODE, OUT, INDICES };

ec_status ec_op_max_pool2d_with_indices_out(ec_call *c) {
  static const ec_pool_args args = {KERNEL, STRIDE, PADDING, DILATION, CEIL_MODE, OUT};
  ec_pool p = {.divisor = 0};
  EC_TRY(ec_call_check_dtype(c, SELF, EC_SET_CLASSIC));
  EC_TRY(ec_call_check_same_dtype(c, OUT, SELF));
  EC_TRY(ec_call_check_dtype(c, INDICES, EC_BIT(EC_INT64)));
  EC_TRY(ec_pool_read(c, &args, &p));
  EC_TRY(ec_pool_resize(c, &p, OUT));
  EC_TRY(ec_pool_resize(c, &p, INDICES));
  if (ec_arg_tensor(c, OUT)->numel == 0) return EC_OK;
  EC_TRY(ec_pool_windows(c, &p, false));
  p.out = ec_arg_tensor(c, OUT)->data;
  p.indices = ec_arg_tensor(c, INDICES)->data;
  ec_pool_strides(ec_arg_tensor(c, OUT), p.out_stride);
  ec_pool_strides(ec_arg_tensor(c, INDICES), p.index_stride);
  bool inner = p.in_stride[1] == 1 && p.channels >= 4 && !c->reference;
  if (!inner || p.axis[0].in > INT32_MAX / p.axis[1].in) {
    planes[p.dtype](&p, NULL);
    return EC_OK;
  }
  void *scratch;
  EC_TRY(ec_call_scratch(c, (size_t)p.channels + 16, sizeof(int32_t) + sizeof(double), &scratch));
  channels[p.dtype](&p, scratch);
  return EC_OK;
}
