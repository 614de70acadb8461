/* var and var_mean. Results are finished in double scratch tensors and converted at the end,
 * because an output may have another dtype than the input. */
#include "core/template.h"
#include "kernels/copy.h"
#include "kernels/promote.h"
#include "kernels/reduce/reduce.h"

enum { VAR_LANES = 8 };

#define EC_TEMPLATE "kernels/reduce/var.tmpl.h"
#include "core/foreach/floatc.h"
#undef EC_TEMPLATE

static const ec_reduce_init inits[EC_DTYPE_COUNT] = {EC_ROWS_FLOATC(var_init)};
static const ec_reduce_step firsts[EC_DTYPE_COUNT] = {EC_ROWS_FLOATC(var_first)};
static const ec_reduce_turn turns[EC_DTYPE_COUNT] = {EC_ROWS_FLOATC(var_turn)};
static const ec_reduce_step seconds[EC_DTYPE_COUNT] = {EC_ROWS_FLOATC(var_second)};
static const ec_reduce_finish finishes[EC_DTYPE_COUNT] = {EC_ROWS_FLOATC(var_finish)};
static const ec_reduce_merge merges[EC_DTYPE_COUNT] = {EC_ROWS_FLOATC(var_merge)};
static const ec_reduce_merge merges_again[EC_DTYPE_COUNT] = {EC_ROWS_FLOATC(var_merge_again)};

typedef struct arguments {
  ec_ints dims;
  double correction;
  bool keepdim;
  size_t var, mean; /* output arguments; mean 0: none */
} arguments;

static ec_status reduce_var(ec_call *c, arguments a) {
  const ec_tensor *in = ec_arg_tensor(c, 0);
  ec_dtype dtype = ec_tensor_dtype(in);
  ec_reduce_plan plan;
  uint32_t mask;
  ec_tensor wide[2], *const outs[2] = {&wide[0], a.mean ? &wide[1] : NULL};
  EC_TRY(ec_call_check_dtype(c, 0, EC_SET_FLOATC));
  EC_TRY(ec_call_check_cast(c, a.var, ec_to_real(dtype)));
  if (a.mean) EC_TRY(ec_call_check_cast(c, a.mean, dtype));
  EC_TRY(ec_reduce_dims(c, a.dims, true, in->rank, &mask));
  ec_reduce_shape(&plan, in, mask, a.keepdim);
  EC_TRY(ec_reduce_resize(c, &plan, a.var));
  if (a.mean) EC_TRY(ec_reduce_resize(c, &plan, a.mean));
  EC_TRY(ec_call_like(c, ec_arg_tensor(c, a.var), EC_FLOAT64, &wide[0]));
  ec_dtype mean_dtype = ec_is_complex(dtype) ? EC_COMPLEX128 : EC_FLOAT64;
  if (a.mean) EC_TRY(ec_call_like(c, ec_arg_tensor(c, a.mean), mean_dtype, &wide[1]));
  ec_reduce_loops loops = {inits[dtype], firsts[dtype], turns[dtype], seconds[dtype],
                           finishes[dtype], merges[dtype], merges_again[dtype]};
  double freedom = (double)plan.count - a.correction;
  ec_reduce_run(&plan, c, in, outs, &loops, freedom > 0 ? freedom : 0);
  ec_copy_cast(c, ec_arg_tensor(c, a.var), outs[0]);
  if (a.mean) ec_copy_cast(c, ec_arg_tensor(c, a.mean), outs[1]);
  return EC_OK;
}

ec_status ec_op_var_out(ec_call *c) {
  arguments a = {.correction = ec_arg_bool(c, 2), .keepdim = ec_arg_bool(c, 3), .var = 4};
  EC_TRY(ec_arg_ints(c, 1, &a.dims));
  return reduce_var(c, a);
}

/* Reads arguments 1 to 3 of the two operators with a correction. */
static ec_status with_correction(ec_call *c, size_t mean) {
  arguments a = {.correction = 1, .keepdim = ec_arg_bool(c, 3), .var = 4, .mean = mean};
  if (!ec_arg_is_none(c, 2)) a.correction = ec_scalar_double(ec_arg_scalar(c, 2));
  EC_TRY(ec_arg_ints(c, 1, &a.dims));
  return reduce_var(c, a);
}

ec_status ec_op_var_correction_out(ec_call *c) { return with_correction(c, 0); }
ec_status ec_op_var_mean_correction_out(ec_call *c) { return with_correction(c, 5); }
