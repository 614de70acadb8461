/* sum and mean. */
#include "core/complex.h"
#include "core/simd.h"
#include "core/template.h"
#include "kernels/copy.h"
#include "kernels/reduce/reduce.h"

enum { SUM_LANES = 16, SUM_CHUNK = 4096 };

#define EC_TEMPLATE "kernels/reduce/sum_row.tmpl.h"
#include "core/foreach/all.h"
#undef EC_TEMPLATE
#define EC_TEMPLATE "kernels/reduce/sum.tmpl.h"
#include "core/foreach/all.h"
#undef EC_TEMPLATE

static const ec_reduce_init inits[EC_DTYPE_COUNT] = {EC_ROWS_ALL(sum_init)};
static const ec_reduce_step steps[EC_DTYPE_COUNT] = {EC_ROWS_ALL(sum_step)};
static const ec_reduce_finish finishes[EC_DTYPE_COUNT] = {EC_ROWS_ALL(sum_finish)};
static const ec_reduce_finish mean_finishes[EC_DTYPE_COUNT] = {EC_ROWS_FLOATC(mean_finish)};
static const ec_reduce_merge merges[EC_DTYPE_COUNT] = {EC_ROWS_ALL(sum_merge)};

/* Sums `dims` of argument 0 into argument `out`, divided by their number for a mean. */
static ec_status reduce_sum(ec_call *c, ec_ints dims, bool keepdim, size_t dtype_arg, size_t out,
                            bool mean) {
  const ec_tensor *in = ec_arg_tensor(c, 0);
  ec_reduce_plan plan;
  uint32_t mask;
  ec_dtype dtype;
  EC_TRY(ec_reduce_dims(c, dims, true, in->rank, &mask));
  EC_TRY(ec_reduce_dtype(c, dtype_arg, out, &dtype));
  if (mean && !ec_dtype_in(dtype, EC_SET_FLOATC))
    return ec_call_fail(c, out, "dtype %s of a mean, expected floating point",
                        ec_dtype_name(dtype));
  if (mean && ec_arg_is_none(c, dtype_arg)) EC_TRY(ec_call_check_dtype(c, 0, EC_SET_FLOATC));
  ec_reduce_shape(&plan, in, mask, keepdim);
  EC_TRY(ec_reduce_resize(c, &plan, out));
  /* As in eager, means round to float16 or bfloat16 only at the end. */
  const ec_dtype as = mean && ec_dtype_in(dtype, EC_SET_HALF) ? EC_FLOAT32 : dtype;
  const bool direct = ec_tensor_dtype(in) == dtype || ec_reduce_direct(ec_tensor_dtype(in), as);
  if (!direct) EC_TRY(ec_reduce_cast(c, &plan, as, &in));
  ec_dtype computed = ec_tensor_dtype(&plan.in);
  ec_reduce_loops loops = {.init = inits[computed], .step = steps[computed],
                           .finish = (mean ? mean_finishes : finishes)[dtype],
                           .merge = merges[computed]};
  ec_tensor *const outs[2] = {ec_arg_tensor(c, out), NULL};
  ec_reduce_run(&plan, c, in, outs, &loops, mean ? (double)plan.count : 1.0);
  return EC_OK;
}

ec_status ec_op_sum_IntList_out(ec_call *c) {
  ec_ints dims;
  EC_TRY(ec_arg_ints(c, 1, &dims));
  return reduce_sum(c, dims, ec_arg_bool(c, 2), 3, 4, false);
}

ec_status ec_op_mean_out(ec_call *c) {
  ec_ints dims;
  EC_TRY(ec_arg_ints(c, 1, &dims));
  return reduce_sum(c, dims, ec_arg_bool(c, 2), 3, 4, true);
}

ec_status ec_op_mean_dtype_out(ec_call *c) {
  return reduce_sum(c, (ec_ints){NULL, 0}, false, 1, 2, true);
}
