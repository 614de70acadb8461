/* pow, with eager's shortcuts for common exponents. They are faster, and their results differ from
 * pow() at infinities and signed zeros. */
#include "kernels/pointwise/template.h"

#include "kernels/pointwise/fast.h"

#define EC_TEMPLATE "kernels/pointwise/power.tmpl.h"
#include "core/foreach/integral.h"
#include "core/foreach/widec.h"
#undef EC_TEMPLATE

#define FLOATING(fn) EC_ROWS_WIDE(fn), EC_ROWS_COMPLEX(fn)

static ec_elementwise_loops power_loops = {EC_ROWS_INTEGRAL(power), FLOATING(power)};

typedef struct shortcut {
  double exponent;
  ec_elementwise_loop loops[EC_DTYPE_COUNT];
} shortcut;

static const shortcut shortcuts[] = {
    {2, {FLOATING(square)}},    {3, {FLOATING(cube)}},
    {0.5, {FLOATING(root)}},    {-0.5, {FLOATING(inverse_root)}},
    {-1, {FLOATING(inverse)}},  {-2, {FLOATING(inverse_square)}},
};

/* Fills x ** 0 and 1 ** x with ones of the result's dtype and the tensor's sizes. */
static ec_status fill_ones(ec_call *c, const ec_tensor *like, ec_dtype result) {
  uint64_t element[2];
  ec_tensor *out = ec_arg_tensor(c, 2);
  EC_TRY(ec_call_check_cast(c, 2, result));
  EC_TRY(ec_call_resize(c, 2, like->rank, like->sizes));
  ec_cast_scalar(ec_tensor_dtype(out), (ec_scalar){EC_KIND_INT, {.i = 1}}, element);
  ec_fill_tensor(c, out, element);
  return EC_OK;
}

static ec_status copy_self(ec_call *c, ec_dtype result) {
  const ec_tensor *self = ec_arg_tensor(c, 0);
  EC_TRY(ec_call_check_cast(c, 2, result));
  EC_TRY(ec_call_resize(c, 2, self->rank, self->sizes));
  ec_copy_cast(c, ec_arg_tensor(c, 2), self);
  return EC_OK;
}

ec_status ec_op_pow_tensor_scalar_out(ec_call *c) {
  ec_dtype result;
  const ec_scalar s = ec_arg_scalar(c, 1);
  const double exponent = ec_scalar_double(s);
  EC_TRY(ec_call_promote(c, 0, 1, &result));
  if (ec_dtype_in(result, EC_SET_INTB) && exponent < 0)
    return ec_call_fail(c, 1, "%g: integers have no negative integer powers", exponent);
  EC_TRY(ec_call_check_scalar(c, 1, result));
  if (exponent == 0) return fill_ones(c, ec_arg_tensor(c, 0), result);
  if (exponent == 1) return copy_self(c, result);
  /* Eager uses pow() for roots of float16. */
  const bool has_roots = ec_tensor_dtype(ec_arg_tensor(c, 0)) != EC_FLOAT16;
  for (size_t i = 0; i < sizeof shortcuts / sizeof shortcuts[0]; i++) {
    ec_elementwise_loop loop = shortcuts[i].loops[ec_compute_dtype(result)];
    if (!loop || shortcuts[i].exponent != exponent) continue;
    if (!has_roots && fabs(exponent) == 0.5) break;
    const ec_operand self = {ec_arg_tensor(c, 0), result, ec_compute_dtype(result)};
    ec_elementwise p = {.inputs = 1, .in = {self}, .loop = loop};
    p.logical = result;
    p.compute = ec_compute_dtype(result);
    return ec_elementwise_run(c, 2, &p);
  }
  return ec_binary_fast(c, 2, power_loops, EC_FAST_POW, 0);
}

ec_status ec_op_pow_tensor_tensor_out(ec_call *c) {
  return ec_binary_fast(c, 2, power_loops, EC_FAST_POW, 0);
}

ec_status ec_op_pow_scalar_out(ec_call *c) {
  ec_dtype result;
  ec_elementwise_loop loop;
  if (ec_scalar_double(ec_arg_scalar(c, 0)) == 1) {
    EC_TRY(ec_call_promote(c, 0, 1, &result));
    EC_TRY(ec_elementwise_find(c, power_loops, result, &loop)); /* refuses bool, as eager does */
    return fill_ones(c, ec_arg_tensor(c, 1), result);
  }
  return ec_binary_fast(c, 2, power_loops, EC_FAST_POW, 0);
}
