/* prod. */
#include "core/complex.h"
#include "core/template.h"
#include "kernels/reduce/reduce.h"

#define EC_TEMPLATE "kernels/reduce/prod.tmpl.h"
#include "core/foreach/all.h"
#undef EC_TEMPLATE

static const ec_reduce_init inits[EC_DTYPE_COUNT] = {EC_ROWS_ALL(prod_init)};
static const ec_reduce_step steps[EC_DTYPE_COUNT] = {EC_ROWS_ALL(prod_step)};
static const ec_reduce_finish finishes[EC_DTYPE_COUNT] = {EC_ROWS_ALL(prod_finish)};

static ec_status reduce_prod(ec_call *c, ec_ints dims, bool keepdim, size_t dtype_arg, size_t out) {
  const ec_tensor *in = ec_arg_tensor(c, 0);
  ec_reduce_plan plan;
  uint32_t mask;
  ec_dtype dtype;
  EC_TRY(ec_reduce_dims(c, dims, true, in->rank, &mask));
  EC_TRY(ec_reduce_dtype(c, dtype_arg, out, &dtype));
  ec_reduce_shape(&plan, in, mask, keepdim);
  EC_TRY(ec_reduce_resize(c, &plan, out));
  bool direct = ec_reduce_direct(ec_tensor_dtype(in), dtype) && !ec_is_floating(dtype) &&
                !ec_is_complex(dtype); /* their accumulators differ in width */
  if (!direct) EC_TRY(ec_reduce_cast(c, &plan, dtype, &in));
  ec_dtype computed = ec_tensor_dtype(&plan.in);
  ec_reduce_loops loops = {
      .init = inits[computed], .step = steps[computed], .finish = finishes[dtype]};
  ec_tensor *const outs[2] = {ec_arg_tensor(c, out), NULL};
  ec_reduce_run(&plan, c, in, outs, &loops, 1.0);
  return EC_OK;
}

ec_status ec_op_prod_int_out(ec_call *c) {
  int64_t dim = ec_arg_int(c, 1);
  return reduce_prod(c, (ec_ints){&dim, 1}, ec_arg_bool(c, 2), 3, 4);
}

ec_status ec_op_prod_out(ec_call *c) { return reduce_prod(c, (ec_ints){NULL, 0}, false, 1, 2); }
