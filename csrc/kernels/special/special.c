/* Special functions of one and two operands: integers and bool compute in float32. */
#include "kernels/special/gamma.h"

#include "kernels/pointwise/template.h"
#include "kernels/special/bessel_tables.h"
#include "kernels/special/gamma_tables.h"

typedef enum polynomial_kind { KIND_T, KIND_U, KIND_V, KIND_W } polynomial_kind;

#define EC_TEMPLATE "kernels/special/bessel.tmpl.h"
#include "core/foreach/wide.h"
#undef EC_TEMPLATE
#define EC_TEMPLATE "kernels/special/polynomial.tmpl.h"
#include "core/foreach/wide.h"
#undef EC_TEMPLATE

typedef enum halves { HALVES, NO_HALVES } halves;

/* Checks float16 and bfloat16, which eager supports only for some functions. */
static ec_status check_halves(ec_call *c, ec_dtype dtype, halves which) {
  if (which == HALVES || !ec_dtype_in(dtype, EC_SET_HALF)) return EC_OK;
  return ec_fail(c->err, EC_INVALID_ARGUMENT, "does not compute in dtype %s", ec_dtype_name(dtype));
}

static ec_status unary_special(ec_call *c, ec_elementwise_loops loops, halves which) {
  EC_TRY(check_halves(c, ec_tensor_dtype(ec_arg_tensor(c, 0)), which));
  return ec_unary(c, 1, loops, EC_ELEMENTWISE_TO_FLOAT, NULL);
}

static ec_status binary_special(ec_call *c, ec_elementwise_loops loops, unsigned flags,
                                halves which) {
  ec_dtype dtype;
  EC_TRY(ec_call_promote(c, 0, 1, &dtype));
  EC_TRY(check_halves(c, dtype, which));
  return ec_binary(c, 2, loops, flags, NULL);
}

#define UNARY(operator, loop, which)                                                               \
  ec_status ec_op_##operator(ec_call *c) {                                                         \
    static ec_elementwise_loops loops = {EC_ROWS_WIDE(loop)};                                      \
    return unary_special(c, loops, which);                                                         \
  }
#define BINARY(operator, loop, flags, which)                                                       \
  ec_status ec_op_##operator(ec_call *c) {                                                         \
    static ec_elementwise_loops loops = {EC_ROWS_WIDE(loop)};                                      \
    return binary_special(c, loops, flags, which);                                                 \
  }
#define POLYNOMIAL(name, loop) BINARY(special_##name, loop, EC_ELEMENTWISE_TO_FLOAT, NO_HALVES)

UNARY(lgamma_out, lgamma_loop, HALVES)
UNARY(digamma_out, digamma, HALVES)
UNARY(erfinv_out, erfinv, HALVES)
UNARY(i0_out, bessel_i0, HALVES)
UNARY(special_i0e_out, bessel_i0e, HALVES)
UNARY(special_i1_out, bessel_i1, HALVES)
UNARY(special_i1e_out, bessel_i1e, HALVES)
UNARY(special_erfcx_out, erfcx, NO_HALVES)
UNARY(special_ndtri_out, ndtri, NO_HALVES)
UNARY(special_airy_ai_out, airy_ai, NO_HALVES)
UNARY(special_bessel_j0_out, bessel_j0, NO_HALVES)
UNARY(special_bessel_j1_out, bessel_j1, NO_HALVES)
UNARY(special_bessel_y0_out, bessel_y0, NO_HALVES)
UNARY(special_bessel_y1_out, bessel_y1, NO_HALVES)
UNARY(special_modified_bessel_i0_out, bessel_i0, NO_HALVES)
UNARY(special_modified_bessel_i1_out, bessel_i1, NO_HALVES)
UNARY(special_modified_bessel_k0_out, bessel_k0, NO_HALVES)
UNARY(special_modified_bessel_k1_out, bessel_k1, NO_HALVES)
UNARY(special_scaled_modified_bessel_k0_out, bessel_k0e, NO_HALVES)
UNARY(special_scaled_modified_bessel_k1_out, bessel_k1e, NO_HALVES)
UNARY(special_spherical_bessel_j0_out, spherical_j0, NO_HALVES)

BINARY(igamma_out, igamma, EC_ELEMENTWISE_SAME, HALVES)
BINARY(igammac_out, igammac, EC_ELEMENTWISE_SAME, HALVES)
BINARY(special_zeta, zeta, EC_ELEMENTWISE_TO_FLOAT, NO_HALVES)

/* Each with a tensor or a number in either position. */
POLYNOMIAL(chebyshev_polynomial_t, chebyshev_t)
POLYNOMIAL(chebyshev_polynomial_u, chebyshev_u)
POLYNOMIAL(chebyshev_polynomial_v, chebyshev_v)
POLYNOMIAL(chebyshev_polynomial_w, chebyshev_w)
POLYNOMIAL(shifted_chebyshev_polynomial_t, shifted_chebyshev_t)
POLYNOMIAL(shifted_chebyshev_polynomial_u, shifted_chebyshev_u)
POLYNOMIAL(shifted_chebyshev_polynomial_v, shifted_chebyshev_v)
POLYNOMIAL(shifted_chebyshev_polynomial_w, shifted_chebyshev_w)
POLYNOMIAL(hermite_polynomial_h, hermite_h)
POLYNOMIAL(hermite_polynomial_he, hermite_he)
POLYNOMIAL(laguerre_polynomial_l, laguerre)
POLYNOMIAL(legendre_polynomial_p, legendre)

static double round_to_dtype(ec_dtype dtype, double x) {
  ec_number number;
  ec_number_init(&number, dtype, (ec_scalar){EC_KIND_DOUBLE, {.d = x}});
  ec_cast(EC_FLOAT64, dtype)(1, (char *)&x, 0, number.tensor.data, 0);
  return x;
}

/* n! with eager's rounding: in the dtype, step by step. */
static double rounded_factorial(ec_dtype dtype, int64_t n) {
  int sign;
  return round_to_dtype(dtype, exp(round_to_dtype(dtype, lgamma_r((double)n + 1, &sign))));
}

/* Argument 0 is n, 1 the tensor. n = 0 and 1 have separate loops, as in eager. */
ec_status ec_op_polygamma_out(ec_call *c) {
  static ec_elementwise_loops loops[] = {
      {EC_ROWS_WIDE(digamma)}, {EC_ROWS_WIDE(trigamma)}, {EC_ROWS_WIDE(polygamma)}};
  const int64_t n = ec_arg_int(c, 0);
  const ec_tensor *self = ec_arg_tensor(c, 1);
  const ec_dtype computed = ec_to_float(ec_tensor_dtype(self));
  if (n < 0) return ec_call_fail(c, 0, "a negative derivative");
  ec_elementwise p = {.inputs = 1, .logical = computed, .compute = ec_compute_dtype(computed)};
  EC_TRY(ec_elementwise_find(c, loops[n > 1 ? 2 : n], computed, &p.loop));
  p.in[0] = (ec_operand){self, computed, p.compute};
  p.params.v[0].d = (double)n;
  p.params.v[1].d = n % 2 ? rounded_factorial(computed, n) : -rounded_factorial(computed, n);
  return ec_elementwise_run(c, 2, &p);
}
