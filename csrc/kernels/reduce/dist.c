/* dist: the p-norm of a difference with broadcasting, in double. */
#include <math.h>

#include "core/template.h"
#include "kernels/copy.h"
#include "kernels/promote.h"

enum { DIST_BLOCK = 256 };

/* Adds a block to a norm's accumulator: sums of magnitudes, counts of non-zeros for p = 0, extremes
 * for infinite p. */
static double add_block(const double *size, int64_t n, double p, double sum) {
  for (int64_t i = 0; i < n; i++) {
    double v = size[i];
    if (p == 2) sum += v * v;
    else if (p == 1) sum += v;
    else if (p == 0) sum += v != 0;
    else if (isinf(p)) sum = (p > 0 ? v > sum : v < sum) || v != v ? v : sum;
    else sum += pow(v, p);
  }
  return sum;
}

/* Returns the conversion to a complex number; of real ones, to its real part. */
static ec_cast_fn read_as(const ec_tensor *t) {
  const ec_dtype dtype = ec_tensor_dtype(t);
  return ec_cast(ec_dtype_in(dtype, EC_SET_COMPLEX) ? EC_COMPLEX128 : EC_FLOAT64, dtype);
}

static double distance_norm(ec_iter *it, const ec_tensor *a, const ec_tensor *b, double p) {
  double _Complex x[DIST_BLOCK] = {0}, y[DIST_BLOCK] = {0};
  double size[DIST_BLOCK], sum = p == -INFINITY ? INFINITY : 0;
  const ec_cast_fn read_a = read_as(a), read_b = read_as(b);
  int64_t item = sizeof *x;
  for (bool more = ec_iter_start(it); more; more = ec_iter_next(it))
    for (int64_t i = 0, n; i < it->count; i += n) {
      n = it->count - i < DIST_BLOCK ? it->count - i : DIST_BLOCK;
      read_a(n, (char *)x, item, it->at[0] + i * it->step[0], it->step[0]);
      read_b(n, (char *)y, item, it->at[1] + i * it->step[1], it->step[1]);
      for (int64_t j = 0; j < n; j++) {
        double _Complex d = x[j] - y[j];
        size[j] = cimag(d) == 0 ? fabs(creal(d)) : cabs(d);
      }
      sum = add_block(size, n, p, sum);
    }
  return p == 2 ? sqrt(sum) : p == 0 || p == 1 || isinf(p) ? sum : pow(sum, 1 / p);
}

ec_status ec_op_dist_out(ec_call *c) {
  const ec_tensor *a = ec_arg_tensor(c, 0), *b = ec_arg_tensor(c, 1);
  double p = ec_scalar_double(ec_arg_scalar(c, 2));
  int64_t sizes[EC_MAX_RANK], numel = 0;
  size_t rank = 0;
  ec_dtype dtype;
  ec_iter it;
  EC_TRY(ec_call_promote(c, 0, 1, &dtype));
  if (!ec_dtype_in(dtype, EC_SET_FLOATC))
    return ec_call_fail(c, 0, "dtype %s of a distance, expected floating point",
                        ec_dtype_name(dtype));
  EC_TRY(ec_call_check_cast(c, 3, ec_to_real(dtype)));
  EC_TRY(ec_call_broadcast(c, 0, a, &rank, sizes));
  EC_TRY(ec_call_broadcast(c, 1, b, &rank, sizes));
  if (ec_numel(sizes, rank, &numel) && numel == 0 && (p < 0 || isinf(p)))
    return ec_call_fail(c, 0, "no elements, expected some for the norm %g", p);
  EC_TRY(ec_call_resize(c, 3, 0, NULL));
  ec_tensor *out = ec_arg_tensor(c, 3);
  ec_iter_init(&it, rank, sizes);
  ec_iter_tensor(&it, a);
  ec_iter_tensor(&it, b);
  double result = distance_norm(&it, a, b, p);
  ec_cast(ec_tensor_dtype(out), EC_FLOAT64)(1, out->data, 0, (const char *)&result, 0);
  return EC_OK;
}
