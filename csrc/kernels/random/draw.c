/* Tensors of random numbers: sizes, dtypes and parameters with eager's checks. */
#include <math.h>

#include "kernels/pointwise/elementwise.h"
#include "kernels/random/random.h"

/* Initialises a parameter as a 0-d tensor. */
static void init_number(ec_number *n, double x) {
  ec_number_init(n, EC_FLOAT64, (ec_scalar){EC_KIND_DOUBLE, {.d = x}});
}

static ec_status draw_dist(ec_call *c, size_t o, ec_dist dist, double a, double b) {
  ec_number first, second;
  init_number(&first, a);
  init_number(&second, b);
  ec_random_fill(c, o, dist, &first.tensor, &second.tensor);
  return EC_OK;
}

/* Resizes the output to the sizes in argument 0: a list, or a tensor's sizes. */
static ec_status resize_output(ec_call *c, size_t o) {
  ec_ints list;
  if (c->args[0]->kind == EC_KIND_TENSOR) {
    const ec_tensor *self = ec_arg_tensor(c, 0);
    return ec_call_resize(c, o, self->rank, self->sizes);
  }
  EC_TRY(ec_arg_ints(c, 0, &list));
  return ec_call_resize(c, o, list.n, list.v);
}

/* ---- rand, randn and *_like --------------------------------------------------------------- */

static ec_status draw_standard(ec_call *c, size_t o, ec_dist dist) {
  EC_TRY(ec_call_check_dtype(c, o, EC_SET_FLOATC));
  EC_TRY(resize_output(c, o));
  const bool pairs = ec_is_complex(ec_tensor_dtype(ec_arg_tensor(c, o)));
  if (dist == EC_DIST_UNIFORM) return draw_dist(c, o, dist, 0, 1);
  /* both parts together: variance 1 */
  return draw_dist(c, o, dist, 0, pairs ? 0x1.6a09e667f3bcdp-1 : 1);
}

ec_status ec_op_rand_out(ec_call *c) { return draw_standard(c, 1, EC_DIST_UNIFORM); }
ec_status ec_op_randn_out(ec_call *c) { return draw_standard(c, 1, EC_DIST_NORMAL); }
ec_status ec_op_rand_like_out(ec_call *c) { return draw_standard(c, 2, EC_DIST_UNIFORM); }
ec_status ec_op_randn_like_out(ec_call *c) { return draw_standard(c, 2, EC_DIST_NORMAL); }

/* ---- self's sizes and dtype, parameters as numbers ---------------------------------------- */

/* Parameters are arguments 1 and 2 (3 is the generator), or 1 alone, depending on `o`. */
static ec_status draw_like(ec_call *c, size_t o, ec_dtype_set dtypes, ec_dist dist) {
  EC_TRY(ec_call_check_dtype(c, 0, dtypes));
  EC_TRY(ec_call_check_same_dtype(c, o, 0));
  EC_TRY(resize_output(c, o));
  return draw_dist(c, o, dist, ec_arg_double(c, 1), o == 4 ? ec_arg_double(c, 2) : 0);
}

/* Fails unless the number in argument `i` is above zero (or equal, with `equal`). */
static ec_status above_zero(ec_call *c, size_t i, bool equal) {
  const double x = ec_arg_double(c, i);
  if (x > 0 || (equal && x == 0)) return EC_OK;
  return ec_call_fail(c, i, "%g, expected a number %s 0", x, equal ? "from" : "above");
}

ec_status ec_op_uniform_out(ec_call *c) {
  const double from = ec_arg_double(c, 1), to = ec_arg_double(c, 2);
  if (!(from <= to) || !isfinite(to - from))
    return ec_fail(c->err, EC_INVALID_ARGUMENT, "no numbers between %g and %g", from, to);
  return draw_like(c, 4, EC_SET_FLOATC, EC_DIST_UNIFORM);
}

ec_status ec_op_log_normal_out(ec_call *c) {
  EC_TRY(above_zero(c, 2, false));
  return draw_like(c, 4, EC_SET_FLOATING, EC_DIST_LOG_NORMAL);
}

ec_status ec_op_cauchy_out(ec_call *c) {
  EC_TRY(above_zero(c, 2, false));
  return draw_like(c, 4, EC_SET_FLOATING, EC_DIST_CAUCHY);
}

ec_status ec_op_exponential_out(ec_call *c) {
  EC_TRY(above_zero(c, 1, false));
  return draw_like(c, 3, EC_SET_FLOATING, EC_DIST_EXPONENTIAL);
}

ec_status ec_op_geometric_out(ec_call *c) {
  const double p = ec_arg_double(c, 1);
  if (!(p > 0 && p < 1)) return ec_call_fail(c, 1, "%g, expected a number between 0 and 1", p);
  return draw_like(c, 3, EC_SET_REAL, EC_DIST_GEOMETRIC);
}

/* ---- bernoulli --------------------------------------------------------------------------- */

/* Fails if a real element of a tensor is outside [low, high]. */
static ec_status check_range(ec_call *c, size_t i, double low, double high) {
  const ec_tensor *t = ec_arg_tensor(c, i);
  const ec_cast_fn cast = ec_cast(EC_FLOAT64, ec_tensor_dtype(t));
  const size_t item = ec_dtype_size(ec_tensor_dtype(t));
  for (int64_t k = 0; k < t->numel; k++) {
    double x;
    cast(1, (char *)&x, 0, (const char *)t->data + (size_t)k * item, 0);
    if (!(x >= low && x <= high))
      return ec_call_fail(c, i, "an element is %g, expected from %g to %g", x, low, high);
  }
  return EC_OK;
}

static ec_status draw_bernoulli(ec_call *c, size_t o, const ec_tensor *p) {
  ec_number none;
  init_number(&none, 0);
  EC_TRY(resize_output(c, o));
  ec_random_fill(c, o, EC_DIST_BERNOULLI, p, &none.tensor);
  return EC_OK;
}

ec_status ec_op_bernoulli_out(ec_call *c) {
  EC_TRY(ec_call_check_dtype(c, 0, EC_SET_FLOATING));
  EC_TRY(check_range(c, 0, 0, 1));
  return draw_bernoulli(c, 2, ec_arg_tensor(c, 0));
}

ec_status ec_op_bernoulli_float_out(ec_call *c) {
  const double p = ec_arg_double(c, 1);
  ec_number n;
  if (!(p >= 0 && p <= 1)) return ec_call_fail(c, 1, "%g, expected from 0 to 1", p);
  EC_TRY(ec_call_check_dtype(c, 0, EC_SET_REALB));
  EC_TRY(ec_call_check_same_dtype(c, 3, 0));
  init_number(&n, p);
  return draw_bernoulli(c, 3, &n.tensor);
}

/* ---- normal with tensors ----------------------------------------------------------------- */

/* Mean and deviation are arguments 0 and 1, each a tensor or a number. */
static ec_status draw_normal(ec_call *c) {
  size_t rank = 0;
  int64_t sizes[EC_MAX_RANK];
  ec_number numbers[2];
  const ec_tensor *t[2];
  EC_TRY(ec_call_check_dtype(c, 3, EC_SET_FLOATING));
  for (size_t i = 0; i < 2; i++) {
    if (c->args[i]->kind == EC_KIND_TENSOR) {
      EC_TRY(ec_call_check_dtype(c, i, EC_SET_FLOATING));
      t[i] = ec_arg_tensor(c, i);
    } else {
      init_number(&numbers[i], ec_arg_double(c, i));
      t[i] = &numbers[i].tensor;
    }
    EC_TRY(ec_call_broadcast(c, i, t[i], &rank, sizes));
  }
  if (c->args[1]->kind == EC_KIND_TENSOR) EC_TRY(check_range(c, 1, 0, (double)INFINITY));
  else EC_TRY(above_zero(c, 1, true));
  EC_TRY(ec_call_resize(c, 3, rank, sizes));
  ec_random_fill(c, 3, EC_DIST_NORMAL, t[0], t[1]);
  return EC_OK;
}

ec_status ec_op_normal_tensor_float_out(ec_call *c) { return draw_normal(c); }
ec_status ec_op_normal_float_tensor_out(ec_call *c) { return draw_normal(c); }
ec_status ec_op_normal_tensor_tensor_out(ec_call *c) { return draw_normal(c); }

ec_status ec_op_normal_float_float_out(ec_call *c) {
  ec_ints list;
  EC_TRY(ec_call_check_dtype(c, 4, EC_SET_FLOATC));
  EC_TRY(above_zero(c, 1, true));
  EC_TRY(ec_arg_ints(c, 2, &list));
  EC_TRY(ec_call_resize(c, 4, list.n, list.v));
  return draw_dist(c, 4, EC_DIST_NORMAL, ec_arg_double(c, 0), ec_arg_double(c, 1));
}
