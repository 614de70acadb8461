/* where and masked_fill: elements are copied unchanged, so loops depend only on the element
 * size. */
#include "kernels/pointwise/elementwise.h"

#define EC_TEMPLATE "kernels/pointwise/select.tmpl.h"
#include "core/foreach/item_size.h"
#undef EC_TEMPLATE

static ec_status run_where(ec_call *c, size_t o, ec_dtype result, const ec_tensor *condition,
                           const ec_tensor *yes, const ec_tensor *no) {
  ec_elementwise p = {.inputs = 3, .logical = result, .compute = result};
  p.in[0] = (ec_operand){condition, EC_BOOL, EC_BOOL};
  p.in[1] = (ec_operand){yes, result, result};
  p.in[2] = (ec_operand){no, result, result};
  switch (ec_dtype_size(result)) {
  case 1: p.loop = choose_1; break;
  case 2: p.loop = choose_2; break;
  case 4: p.loop = choose_4; break;
  case 8: p.loop = choose_8; break;
  default: p.loop = choose_16;
  }
  return ec_elementwise_run(c, o, &p);
}

ec_status ec_op_where_self_out(ec_call *c) {
  ec_dtype result;
  EC_TRY(ec_call_check_dtype(c, 0, EC_BIT(EC_BOOL) | EC_BIT(EC_UINT8)));
  EC_TRY(ec_call_promote(c, 1, 2, &result));
  return run_where(c, 3, result, ec_arg_tensor(c, 0), ec_arg_tensor(c, 1), ec_arg_tensor(c, 2));
}

ec_status ec_op_masked_fill_scalar_out(ec_call *c) {
  const ec_tensor *self = ec_arg_tensor(c, 0);
  const ec_dtype dtype = ec_tensor_dtype(self);
  ec_number value;
  EC_TRY(ec_call_check_dtype(c, 1, EC_BIT(EC_BOOL)));
  EC_TRY(ec_call_check_scalar(c, 2, dtype));
  ec_number_init(&value, dtype, ec_arg_scalar(c, 2));
  return run_where(c, 3, dtype, ec_arg_tensor(c, 1), &value.tensor, self);
}
