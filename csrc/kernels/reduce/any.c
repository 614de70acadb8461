/* any. */
#include <string.h>

#include "core/simd.h"
#include "core/template.h"
#include "kernels/reduce/reduce.h"

#define EC_TEMPLATE "kernels/reduce/any.tmpl.h"
#include "core/foreach/all.h"
#undef EC_TEMPLATE

static const ec_reduce_step steps[EC_DTYPE_COUNT] = {EC_ROWS_ALL(any_step)};

static void any_init(ec_reduce_acc acc, int64_t k) { memset(acc.a, 0, (size_t)k); }

static void any_finish(ec_reduce_acc acc, int64_t k, const ec_reduce_dst *d) {
  const uint8_t *a = acc.a;
  for (int64_t i = 0; i < k; i++) d->out[0][i * d->stride[0]] = (char)a[i];
}

static void any_merge(ec_reduce_acc acc, ec_reduce_acc later) {
  *(uint8_t *)acc.a |= *(const uint8_t *)later.a;
}

static ec_status reduce_any(ec_call *c, ec_ints dims, bool empty_is_all, bool keepdim, size_t out) {
  const ec_tensor *in = ec_arg_tensor(c, 0);
  ec_reduce_plan plan;
  uint32_t mask;
  EC_TRY(ec_reduce_dims(c, dims, empty_is_all, in->rank, &mask));
  EC_TRY(ec_call_check_dtype(c, out, EC_BIT(EC_BOOL) | EC_BIT(EC_UINT8)));
  ec_reduce_shape(&plan, in, mask, keepdim);
  EC_TRY(ec_reduce_resize(c, &plan, out));
  ec_reduce_loops loops = {.init = any_init, .step = steps[in->dtype], .finish = any_finish,
                           .merge = any_merge};
  ec_tensor *const outs[2] = {ec_arg_tensor(c, out), NULL};
  ec_reduce_run(&plan, c, in, outs, &loops, 1.0);
  return EC_OK;
}

ec_status ec_op_any_all_out(ec_call *c) {
  return reduce_any(c, (ec_ints){NULL, 0}, true, false, 1);
}

ec_status ec_op_any_out(ec_call *c) {
  int64_t dim = ec_arg_int(c, 1);
  return reduce_any(c, (ec_ints){&dim, 1}, false, ec_arg_bool(c, 2), 3);
}

/* None means all dimensions, an empty list none. */
ec_status ec_op_any_dims_out(ec_call *c) {
  ec_ints dims;
  EC_TRY(ec_arg_ints(c, 1, &dims));
  return reduce_any(c, dims, ec_arg_is_none(c, 1), ec_arg_bool(c, 2), 3);
}
