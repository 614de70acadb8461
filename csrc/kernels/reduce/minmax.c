/* max, min, amax, amin, argmax, argmin: one set of loops for both directions. */
#include <string.h>

#include "core/simd.h"
#include "core/template.h"
#include "kernels/copy.h"
#include "kernels/promote.h"
#include "kernels/reduce/reduce.h"

enum {
  MINMAX_LANES = 16,   /* columns at once; shorter rows do not use vectors */
  MINMAX_BYTES = 32,   /* of a vector: compilers spill wider ones for AVX2 */
  MINMAX_CHUNK = 1024
};

#define EC_TEMPLATE "kernels/reduce/minmax.tmpl.h"

#define EC_MFN(name) EC_FN(EC_PASTE(max, name))
#define EC_BEATS(x, y) ((x) > (y))
#define EC_WORST EC_LOWEST
#include "core/foreach/realb.h"
#undef EC_MFN
#undef EC_BEATS
#undef EC_WORST

#define EC_MFN(name) EC_FN(EC_PASTE(min, name))
#define EC_BEATS(x, y) ((x) < (y))
#define EC_WORST EC_HIGHEST
#include "core/foreach/realb.h"
#undef EC_TEMPLATE

typedef struct extreme {
  ec_reduce_init init[EC_DTYPE_COUNT];
  ec_reduce_step step[EC_DTYPE_COUNT], arg_step[EC_DTYPE_COUNT];
  ec_reduce_finish finish[EC_DTYPE_COUNT];
  ec_reduce_merge merge[EC_DTYPE_COUNT];
} extreme;

static const extreme maximum = {{EC_ROWS_REALB(max_init)},
                                {EC_ROWS_REALB(max_step)},
                                {EC_ROWS_REALB(max_arg_step)},
                                {EC_ROWS_REALB(max_finish)},
                                {EC_ROWS_REALB(max_merge)}};
static const extreme minimum = {{EC_ROWS_REALB(min_init)},
                                {EC_ROWS_REALB(min_step)},
                                {EC_ROWS_REALB(min_arg_step)},
                                {EC_ROWS_REALB(min_finish)},
                                {EC_ROWS_REALB(min_merge)}};

/* Output arguments; NO_OUT if the operator has none of that kind. */
enum { NO_OUT = EC_MAX_OP_ARGS };
typedef struct outputs {
  size_t values, positions;
} outputs;

static ec_status reduce_extreme(ec_call *c, const extreme *e, ec_ints dims, bool keepdim,
                                outputs o) {
  const ec_tensor *in = ec_arg_tensor(c, 0);
  ec_reduce_plan plan;
  uint32_t mask;
  const bool none = o.positions == NO_OUT && !in->numel; /* eager compares nothing, in any dtype */
  EC_TRY(ec_call_check_dtype(c, 0, none ? EC_SET_ALL : EC_SET_REALB));
  EC_TRY(ec_reduce_dims(c, dims, true, in->rank, &mask));
  ec_reduce_shape(&plan, in, mask, keepdim);
  plan.ordered = o.positions != NO_OUT;
  EC_TRY(ec_reduce_check_nonempty(c, &plan));
  if (o.values != NO_OUT) EC_TRY(ec_call_check_dtype(c, o.values, EC_BIT(plan.in.dtype)));
  if (o.positions != NO_OUT) EC_TRY(ec_call_check_dtype(c, o.positions, EC_BIT(EC_INT64)));
  if (o.values != NO_OUT) EC_TRY(ec_reduce_resize(c, &plan, o.values));
  if (o.positions != NO_OUT) EC_TRY(ec_reduce_resize(c, &plan, o.positions));
  ec_tensor *const outs[2] = {o.values == NO_OUT ? NULL : ec_arg_tensor(c, o.values),
                              o.positions == NO_OUT ? NULL : ec_arg_tensor(c, o.positions)};
  uint8_t d = plan.in.dtype;
  ec_reduce_loops loops = {.init = e->init[d],
                           .step = plan.ordered ? e->arg_step[d] : e->step[d],
                           .finish = e->finish[d],
                           .merge = e->merge[d]};
  ec_reduce_run(&plan, c, in, outs, &loops, 1.0);
  return EC_OK;
}

static void extreme_of(const ec_call *c, const extreme *e, const ec_tensor *in, uint32_t mask,
                       ec_tensor *out) {
  ec_reduce_plan plan;
  ec_reduce_loops loops = {.init = e->init[in->dtype], .step = e->step[in->dtype],
                           .finish = e->finish[in->dtype], .merge = e->merge[in->dtype]};
  ec_reduce_shape(&plan, in, mask, true);
  ec_reduce_run(&plan, c, in, (ec_tensor *const[2]){out, NULL}, &loops, 1.0);
}

void ec_reduce_extremes(const ec_call *c, const ec_tensor *in, uint32_t mask, ec_tensor *low,
                        ec_tensor *high) {
  extreme_of(c, &minimum, in, mask, low);
  extreme_of(c, &maximum, in, mask, high);
}

static ec_status over_dims(ec_call *c, const extreme *e) {
  ec_ints dims;
  EC_TRY(ec_arg_ints(c, 1, &dims));
  return reduce_extreme(c, e, dims, ec_arg_bool(c, 2), (outputs){3, NO_OUT});
}

static ec_status over_dim(ec_call *c, const extreme *e) {
  int64_t dim = ec_arg_int(c, 1);
  return reduce_extreme(c, e, (ec_ints){&dim, 1}, ec_arg_bool(c, 2), (outputs){3, 4});
}

/* Refuses bools, as in eager. */
static ec_status reduce_arg_extreme(ec_call *c, const extreme *e) {
  EC_TRY(ec_call_check_dtype(c, 0, EC_SET_REAL));
  int64_t dim = ec_arg_opt_int(c, 1, 0);
  ec_ints dims = {&dim, ec_arg_is_none(c, 1) ? 0 : 1};
  return reduce_extreme(c, e, dims, ec_arg_bool(c, 2), (outputs){NO_OUT, 3});
}

/* The only variants whose output may have another dtype: the value is converted at the end. */
static ec_status reduce_all(ec_call *c, const extreme *e) {
  ec_tensor *out = ec_arg_tensor(c, 1);
  ec_dtype dtype = ec_tensor_dtype(ec_arg_tensor(c, 0)), out_dtype = ec_tensor_dtype(out);
  if (dtype == out_dtype)
    return reduce_extreme(c, e, (ec_ints){NULL, 0}, false, (outputs){1, NO_OUT});
  EC_TRY(ec_call_check_dtype(c, 0, EC_SET_REALB));
  EC_TRY(ec_call_check_cast(c, 1, dtype));
  EC_TRY(ec_call_resize(c, 1, 0, NULL));
  _Alignas(16) char value[16];
  ec_tensor one = {.data = value, .capacity = sizeof value, .numel = 1, .dtype = (uint8_t)dtype};
  ec_value slot = {.kind = EC_KIND_TENSOR, .as.tensor = &one};
  ec_value *args[2] = {c->args[0], &slot};
  ec_call inner = *c;
  inner.record = NULL;
  inner.args = args;
  EC_TRY(reduce_extreme(&inner, e, (ec_ints){NULL, 0}, false, (outputs){1, NO_OUT}));
  ec_cast(out_dtype, dtype)(1, out->data, 0, value, 0);
  return EC_OK;
}

ec_status ec_op_amax_out(ec_call *c) { return over_dims(c, &maximum); }
ec_status ec_op_amin_out(ec_call *c) { return over_dims(c, &minimum); }
ec_status ec_op_max_dim_max(ec_call *c) { return over_dim(c, &maximum); }
ec_status ec_op_min_dim_min(ec_call *c) { return over_dim(c, &minimum); }
ec_status ec_op_argmax_out(ec_call *c) { return reduce_arg_extreme(c, &maximum); }
ec_status ec_op_argmin_out(ec_call *c) { return reduce_arg_extreme(c, &minimum); }
ec_status ec_op_max_unary_out(ec_call *c) { return reduce_all(c, &maximum); }
ec_status ec_op_min_unary_out(ec_call *c) { return reduce_all(c, &minimum); }
