/* Conversion of arguments to operands: numbers, promotion, and the common forms of operators. */
#include <inttypes.h>
#include <math.h>

#include "kernels/pointwise/fast.h"

static bool int_fits(ec_dtype dtype, int64_t x) {
  switch (dtype) {
  case EC_UINT8: return x >= -UINT8_MAX && x <= UINT8_MAX;
  case EC_INT8: return x >= INT8_MIN && x <= INT8_MAX;
  case EC_INT16: return x >= INT16_MIN && x <= INT16_MAX;
  case EC_UINT16: return x >= -UINT16_MAX && x <= UINT16_MAX;
  case EC_INT32: return x >= INT32_MIN && x <= INT32_MAX;
  case EC_UINT32: return x >= -(int64_t)UINT32_MAX && x <= (int64_t)UINT32_MAX;
  case EC_FLOAT16: return x >= -65504 && x <= 65504;
  default: return true;
  }
}

static bool double_fits(ec_dtype dtype, double x) {
  if (ec_is_floating(dtype) || ec_is_complex(dtype)) {
    if (!isfinite(x)) return true;
    double limit = dtype == EC_FLOAT16                               ? 65504.0
                   : dtype == EC_BFLOAT16                            ? 0x1.fep127
                   : dtype == EC_FLOAT64 || dtype == EC_COMPLEX128 ? INFINITY
                                                                     : 0x1.fffffep127;
    return x >= -limit && x <= limit;
  }
  if (dtype == EC_BOOL) return true;
  if (dtype == EC_UINT64) return x >= -0x1p64 && x < 0x1p64;
  return x >= -0x1p63 && x < 0x1p63 && int_fits(dtype, (int64_t)x);
}

ec_status ec_call_check_scalar(ec_call *c, size_t i, ec_dtype dtype) {
  ec_scalar s = ec_arg_scalar(c, i);
  if (s.kind == EC_KIND_DOUBLE && !double_fits(dtype, s.as.d))
    return ec_call_fail(c, i, "%g does not fit dtype %s", s.as.d, ec_dtype_name(dtype));
  if (s.kind == EC_KIND_INT && !int_fits(dtype, s.as.i))
    return ec_call_fail(c, i, "%" PRId64 " does not fit dtype %s", s.as.i, ec_dtype_name(dtype));
  return EC_OK;
}

static bool is_tensor(const ec_call *c, size_t i) { return c->args[i]->kind == EC_KIND_TENSOR; }

/* Returns an operand from argument `i`; `number` stores a number. As in eager PyTorch, a second
 * tensor of one element is a number, too. */
static ec_operand read_operand(ec_call *c, size_t i, ec_dtype logical, unsigned flags,
                               ec_number *number) {
  ec_operand o = {NULL, logical, ec_compute_dtype(logical)};
  if (is_tensor(c, i)) o.tensor = ec_arg_tensor(c, i);
  if ((flags & EC_ELEMENTWISE_EXACT_SCALAR) && (!o.tensor || (i == 1 && o.tensor->numel == 1)))
    o.logical = o.compute;
  if (o.tensor) return o;
  ec_number_init(number, o.logical, ec_arg_scalar(c, i));
  o.tensor = &number->tensor;
  return o;
}

static ec_dtype result_dtype(ec_dtype computed, unsigned flags) {
  if (flags & (EC_ELEMENTWISE_TO_BOOL | EC_ELEMENTWISE_AS_BOOL)) return EC_BOOL;
  return flags & EC_ELEMENTWISE_TO_REAL ? ec_to_real(computed) : computed;
}

static ec_status start_elementwise(ec_call *c, ec_elementwise_loops loops, ec_dtype common,
                                   unsigned flags,
                                   const ec_params *params, ec_dtype *computed, ec_elementwise *p) {
  *computed = flags & EC_ELEMENTWISE_AS_BOOL    ? EC_BOOL
              : flags & EC_ELEMENTWISE_TO_FLOAT ? ec_to_float(common)
                                          : common;
  *p = (ec_elementwise){.logical = result_dtype(*computed, flags)};
  p->compute = ec_compute_dtype(p->logical);
  if (params) p->params = *params;
  return ec_elementwise_find(c, loops, *computed, &p->loop);
}

/* Replaces the plain loop by the fast one. EC_FAST_COUNT: none. */
static void prefer_fast_loop(const ec_call *c, ec_fast which, ec_dtype compute, ec_elementwise *p) {
  if (which == EC_FAST_COUNT || c->reference) return;
  ec_elementwise_loop fast = ec_fast_loop(which, compute);
  if (fast) p->loop = fast;
}

static ec_status run_unary(ec_call *c, size_t o, ec_elementwise_loops loops, unsigned flags,
                           const ec_params *params, ec_fast which) {
  ec_elementwise p;
  ec_dtype computed;
  const ec_tensor *self = ec_arg_tensor(c, 0);
  EC_TRY(start_elementwise(c, loops, ec_tensor_dtype(self), flags, params, &computed, &p));
  p.inputs = 1;
  p.in[0] = (ec_operand){self, computed, ec_compute_dtype(computed)};
  prefer_fast_loop(c, which, p.in[0].compute, &p);
  return ec_elementwise_run(c, o, &p);
}

ec_status ec_unary(ec_call *c, size_t o, ec_elementwise_loops loops, unsigned flags,
                   const ec_params *params) {
  return run_unary(c, o, loops, flags, params, EC_FAST_COUNT);
}

ec_status ec_unary_fast(ec_call *c, size_t o, ec_elementwise_loops loops, ec_fast which,
                        unsigned flags, const ec_params *params) {
  return run_unary(c, o, loops, flags, params, which);
}

static ec_status run_binary(ec_call *c, size_t o, ec_elementwise_loops loops, unsigned flags,
                            const ec_params *params, ec_fast which) {
  ec_elementwise p;
  ec_number numbers[2];
  ec_dtype common = EC_BOOL, computed;
  if (!(flags & EC_ELEMENTWISE_AS_BOOL)) EC_TRY(ec_call_promote(c, 0, 1, &common));
  EC_TRY(start_elementwise(c, loops, common, flags, params, &computed, &p));
  p.inputs = 2;
  for (size_t k = 0; k < 2; k++) p.in[k] = read_operand(c, k, computed, flags, &numbers[k]);
  prefer_fast_loop(c, which, ec_compute_dtype(computed), &p);
  return ec_elementwise_run(c, o, &p);
}

ec_status ec_binary(ec_call *c, size_t o, ec_elementwise_loops loops, unsigned flags,
                    const ec_params *params) {
  return run_binary(c, o, loops, flags, params, EC_FAST_COUNT);
}

ec_status ec_binary_fast(ec_call *c, size_t o, ec_elementwise_loops loops, ec_fast which,
                         unsigned flags) {
  return run_binary(c, o, loops, flags, NULL, which);
}
