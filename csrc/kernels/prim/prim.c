/* executorch_prim: numbers of the program (symbolic sizes, loop counters), with Python's rules: an
 * Int stays an Int, a Double on either side makes a Double, a Bool is 0 or 1. Integers wrap where
 * Python's would grow. */
#include <inttypes.h>
#include <math.h>

#include "kernels/call.h"

typedef struct pair {
  bool floating; /* true: in a and b; false: in i and j */
  double a, b;
  int64_t i, j;
} pair;

static pair int_operands(const ec_call *c) {
  const ec_scalar x = ec_arg_scalar(c, 0), y = ec_arg_scalar(c, 1);
  return (pair){x.kind == EC_KIND_DOUBLE || y.kind == EC_KIND_DOUBLE, ec_scalar_double(x),
                ec_scalar_double(y), ec_scalar_int(x), ec_scalar_int(y)};
}

static ec_status return_int(ec_call *c, int64_t i) {
  return ec_call_return(c, (ec_scalar){EC_KIND_INT, {.i = i}});
}

static ec_status return_double(ec_call *c, double d) {
  return ec_call_return(c, (ec_scalar){EC_KIND_DOUBLE, {.d = d}});
}

static ec_status return_bool(ec_call *c, bool b) {
  return ec_call_return(c, (ec_scalar){EC_KIND_BOOL, {.b = b}});
}

/* ---- arithmetic -------------------------------------------------------------------------- */

ec_status ec_op_prim_add(ec_call *c) {
  const pair p = int_operands(c);
  if (p.floating) return return_double(c, p.a + p.b);
  return return_int(c, (int64_t)((uint64_t)p.i + (uint64_t)p.j));
}

ec_status ec_op_prim_sub(ec_call *c) {
  const pair p = int_operands(c);
  if (p.floating) return return_double(c, p.a - p.b);
  return return_int(c, (int64_t)((uint64_t)p.i - (uint64_t)p.j));
}

ec_status ec_op_prim_mul(ec_call *c) {
  const pair p = int_operands(c);
  if (p.floating) return return_double(c, p.a * p.b);
  return return_int(c, (int64_t)((uint64_t)p.i * (uint64_t)p.j));
}

ec_status ec_op_prim_truediv(ec_call *c) {
  const pair p = int_operands(c);
  return return_double(c, p.a / p.b);
}

static ec_status check_divisor(ec_call *c, int64_t a, int64_t b) {
  if (b != 0) return EC_OK;
  return ec_call_fail(c, 1, "integer division of %" PRId64 " by zero", a);
}

/* Divides, rounding towards zero; the minimum by -1 wraps. */
static int64_t int_quotient(int64_t a, int64_t b) {
  return b == -1 ? (int64_t)(0 - (uint64_t)a) : a / b;
}

static int64_t int_remainder(int64_t a, int64_t b) { return b == -1 ? 0 : a % b; }

static ec_status floor_int(ec_call *c, int64_t a, int64_t b) {
  EC_TRY(check_divisor(c, a, b));
  return return_int(c, int_quotient(a, b) - (int_remainder(a, b) != 0 && (a < 0) != (b < 0)));
}

static ec_status modulo_int(ec_call *c, int64_t a, int64_t b) {
  EC_TRY(check_divisor(c, a, b));
  const int64_t r = int_remainder(a, b);
  return return_int(c, r != 0 && (r < 0) != (b < 0) ? r + b : r);
}

ec_status ec_op_prim_floordiv(ec_call *c) {
  const pair p = int_operands(c);
  if (!p.floating) return floor_int(c, p.i, p.j);
  if (p.b == 0) return return_double(c, p.a == 0 ? (double)NAN : copysign((double)INFINITY, p.a));
  const double mod = fmod(p.a, p.b);
  double q = (p.a - mod) / p.b;
  if (mod != 0 && (p.b < 0) != (mod < 0)) q -= 1;
  const double down = floor(q);
  return return_double(c, q - down > 0.5 ? down + 1 : down);
}

ec_status ec_op_prim_floordiv_int(ec_call *c) {
  return floor_int(c, ec_arg_int(c, 0), ec_arg_int(c, 1));
}

ec_status ec_op_prim_mod(ec_call *c) {
  const pair p = int_operands(c);
  if (!p.floating) return modulo_int(c, p.i, p.j);
  const double mod = fmod(p.a, p.b);
  return return_double(c, mod != 0 && (p.b < 0) != (mod < 0) ? mod + p.b : mod);
}

ec_status ec_op_prim_mod_int(ec_call *c) {
  return modulo_int(c, ec_arg_int(c, 0), ec_arg_int(c, 1));
}

ec_status ec_op_prim_neg(ec_call *c) {
  const ec_scalar a = ec_arg_scalar(c, 0);
  if (a.kind == EC_KIND_DOUBLE) return return_double(c, -a.as.d);
  return return_int(c, (int64_t)(0 - (uint64_t)ec_scalar_int(a)));
}

/* ---- comparisons ------------------------------------------------------------------------- */

ec_status ec_op_prim_eq(ec_call *c) {
  const pair p = int_operands(c);
  return return_bool(c, p.floating ? p.a == p.b : p.i == p.j);
}

ec_status ec_op_prim_gt(ec_call *c) {
  const pair p = int_operands(c);
  return return_bool(c, p.floating ? p.a > p.b : p.i > p.j);
}

ec_status ec_op_prim_ge(ec_call *c) {
  const pair p = int_operands(c);
  return return_bool(c, p.floating ? p.a >= p.b : p.i >= p.j);
}

ec_status ec_op_prim_lt(ec_call *c) {
  const pair p = int_operands(c);
  return return_bool(c, p.floating ? p.a < p.b : p.i < p.j);
}

ec_status ec_op_prim_le(ec_call *c) {
  const pair p = int_operands(c);
  return return_bool(c, p.floating ? p.a <= p.b : p.i <= p.j);
}

/* ---- other operators --------------------------------------------------------------------- */

ec_status ec_op_prim_sym_max(ec_call *c) {
  const pair p = int_operands(c);
  if (p.floating) return return_double(c, p.a >= p.b || p.a != p.a ? p.a : p.b);
  return return_int(c, p.i > p.j ? p.i : p.j);
}

ec_status ec_op_prim_sym_min(ec_call *c) {
  const pair p = int_operands(c);
  if (p.floating) return return_double(c, p.a <= p.b || p.a != p.a ? p.a : p.b);
  return return_int(c, p.i < p.j ? p.i : p.j);
}

ec_status ec_op_prim_sym_not(ec_call *c) {
  return return_bool(c, ec_scalar_double(ec_arg_scalar(c, 0)) == 0);
}

ec_status ec_op_prim_sym_ite(ec_call *c) {
  const bool yes = ec_scalar_double(ec_arg_scalar(c, 0)) != 0;
  return ec_call_return(c, ec_arg_scalar(c, yes ? 1 : 2));
}

ec_status ec_op_prim_sym_float(ec_call *c) {
  return return_double(c, ec_scalar_double(ec_arg_scalar(c, 0)));
}

/* Returns the rounded number as an Int; values outside int64 saturate. */
static ec_status return_rounded(ec_call *c, double (*rounding)(double)) {
  ec_scalar a = ec_arg_scalar(c, 0);
  if (a.kind == EC_KIND_DOUBLE) a.as.d = rounding(a.as.d);
  return return_int(c, ec_scalar_int(a));
}

ec_status ec_op_prim_sym_int(ec_call *c) { return return_rounded(c, trunc); }
ec_status ec_op_prim_trunc(ec_call *c) { return return_rounded(c, trunc); }
ec_status ec_op_prim_ceil(ec_call *c) { return return_rounded(c, ceil); }
ec_status ec_op_prim_round(ec_call *c) { return return_rounded(c, nearbyint); } /* half to even */
