/* Two operators: one with the shape of its input, one with a data-dependent shape. */
#include "operators.h"

#include <string.h>

/* True if both have the same memory order: the loops below run over memory, not dimensions. */
static bool same_order(const ec_backend_tensor *a, const ec_backend_tensor *b) {
  return a->rank == b->rank && memcmp(a->dim_order, b->dim_order, a->rank) == 0;
}

static bool is_float32(const ec_backend_arg *arg) {
  return arg->as.tensor.dtype == EC_DTYPE_FLOAT32;
}

/* demo::scale.out(Tensor x, float alpha=1, *, Tensor(a!) out): x * alpha */
static uint32_t run_scale(const ec_operator *self, const ec_host *host, ec_host_call *call,
                          ec_backend_arg *args, size_t count) {
  (void)self;
  (void)count;
  const ec_backend_tensor *x = &args[0].as.tensor;
  ec_backend_arg *out = &args[2];
  if (!is_float32(&args[0]) || !is_float32(out))
    return host->fail(call, EC_BACKEND_INVALID_ARGUMENT, "dtypes %d and %d, expected float32",
                      x->dtype, out->as.tensor.dtype);
  uint32_t status = host->resize(call, out, x->rank, x->sizes);
  if (status != EC_BACKEND_OK) return status;
  if (!same_order(x, &out->as.tensor))
    return host->fail(call, EC_BACKEND_NOT_SUPPORTED, "'x' and 'out' have different dim orders");
  const float *from = x->data;
  float *to = out->as.tensor.data, alpha = (float)args[1].as.d;
  for (size_t i = 0; i < x->nbytes / sizeof *from; i++) to[i] = from[i] * alpha;
  return EC_BACKEND_OK;
}

/* demo::positive.out(Tensor x, *, Tensor(a!) out): the positive elements of a vector */
static uint32_t run_positive(const ec_operator *self, const ec_host *host, ec_host_call *call,
                             ec_backend_arg *args, size_t count) {
  (void)self;
  (void)count;
  const ec_backend_tensor *x = &args[0].as.tensor;
  ec_backend_arg *out = &args[1];
  if (!is_float32(&args[0]) || !is_float32(out) || x->rank != 1)
    return host->fail(call, EC_BACKEND_INVALID_ARGUMENT,
                      "'x' has dtype %d and %u dimensions, expected a float32 vector", x->dtype,
                      (unsigned)x->rank);
  const float *from = x->data;
  const int64_t n = x->sizes[0];
  int64_t total = 0;
  for (int64_t i = 0; i < n; i++) total += from[i] > 0;
  uint32_t status = host->resize(call, out, 1, &total);
  if (status != EC_BACKEND_OK) return status;
  float *to = out->as.tensor.data;
  for (int64_t i = 0; i < n; i++)
    if (from[i] > 0) *to++ = from[i];
  return EC_BACKEND_OK;
}

static const ec_operator rows[] = {
    {.schema = "demo::scale.out(Tensor x, float alpha=1, *, Tensor(a!) out) -> Tensor(a!)",
     .run = run_scale},
    {.schema = "demo::positive.out(Tensor x, *, Tensor(a!) out) -> Tensor(a!)",
     .run = run_positive},
};

const ec_operators demo_operators = EC_OPERATORS(rows, "executorch_c demo");
