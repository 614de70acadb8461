/* Runs one operator on values that tests/op_harness.py creates with ctypes. Test builds only. */
#include <stdio.h>
#include <string.h>

#include "kernels/call.h"
#include "kernels/pointwise/fast.h"

#define EC_TEST_API __attribute__((visibility("default")))

EC_TEST_API int ec_testing_run_op(const char *name, ec_value **args, size_t nargs, int reference,
                                  char *message, size_t size);
EC_TEST_API const char *ec_testing_op_schema(size_t index);
EC_TEST_API int ec_testing_fast(const char *name, const char *isa, int64_t n, float *in,
                                float *out);

int ec_testing_run_op(const char *name, ec_value **args, size_t nargs, int reference, char *message,
                      size_t size) {
  ec_error err = {0};
  ec_arena scratch = {0};
  ec_status status = ec_ops_init(&err);
  const ec_op *op = status == EC_OK ? ec_op_find(name) : NULL;
  if (status == EC_OK && !op) status = ec_fail(&err, EC_OPERATOR_MISSING, "no operator %s", name);
  if (status == EC_OK && nargs < op->nargs + op->returns_scalar)
    status = ec_fail(&err, EC_INVALID_ARGUMENT, "%s takes %zu arguments, got %zu", name,
                     op->nargs + op->returns_scalar, nargs);
  if (status == EC_OK) {
    ec_random random = {0, 0};
    ec_call call = {args, op, &scratch, &err, reference != 0, NULL, &random, NULL, NULL};
    status = op->fn(&call);
  }
  snprintf(message, size, "%s", err.message);
  ec_arena_deinit(&scratch);
  return (int)status;
}

const char *ec_testing_op_schema(size_t index) {
  if (ec_ops_init(NULL) != EC_OK || index >= ec_op_count()) return NULL;
  return ec_op_at(index)->schema;
}

/* Returns the loops of fast.def for an instruction set; NULL if this machine lacks it. */
static const ec_elementwise_loop *fast_loops(const char *isa) {
  if (strcmp(isa, "generic") == 0) return ec_fast_generic;
#ifdef __x86_64__
  if (strcmp(isa, "avx2") == 0 && ec_fast_has_avx2()) return ec_fast_avx2;
  if (strcmp(isa, "avx512") == 0 && ec_fast_has_avx512()) return ec_fast_avx512;
#endif
  return NULL;
}

/* Runs a row of fast.def for an instruction set; returns 0 without such a row or set. */
int ec_testing_fast(const char *name, const char *isa, int64_t n, float *in, float *out) {
  static const char *const names[] = {
#define EC_FAST(NAME, loop) #NAME,
#include "kernels/pointwise/fast.def"
#undef EC_FAST
  };
  const ec_elementwise_loop *loops = fast_loops(isa);
  ec_params params = {0};
  for (size_t i = 0; loops && i < EC_FAST_COUNT; i++) {
    if (strcmp(name, names[i]) != 0) continue;
    loops[i](n, (char *[]){(char *)out, (char *)in}, (int64_t[]){4, 4}, &params);
    return 1;
  }
  return 0;
}
