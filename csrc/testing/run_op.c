/* Runs one operator on values that tests/op_harness.py creates with ctypes. Test builds only. */
#include <stdio.h>
#include <string.h>

#include "core/alloc.h"
#include "kernels/call.h"
#include "kernels/pointwise/fast.h"
#include "kernels/pointwise/joined.h"
#include "kernels/record.h"

#define EC_TEST_API __attribute__((visibility("default")))

EC_TEST_API int ec_testing_run_op(const char *name, ec_value **args, size_t nargs, int reference,
                                  char *message, size_t size);
EC_TEST_API const char *ec_testing_op_schema(size_t index);
EC_TEST_API int ec_testing_fast(const char *name, const char *isa, int64_t n, float *in,
                                float *out);

/* ---- records: each test of a kernel is a test of its record --------------------------------- */

enum { MAX_TENSORS = 64 };

typedef struct tensors {
  ec_tensor *items[MAX_TENSORS];
  size_t n;
  size_t bytes;
} tensors;

static void add_tensors(tensors *all, const ec_value *v) {
  if (v->kind == EC_KIND_TENSOR && all->n < MAX_TENSORS) {
    all->items[all->n++] = v->as.tensor;
    all->bytes += ec_tensor_nbytes(v->as.tensor);
  }
  if (v->kind == EC_KIND_TENSOR_LIST)
    for (uint32_t i = 0; i < v->count; i++) add_tensors(all, v->as.items[i]);
}

static bool is_among(const tensors *all, const ec_tensor *t) {
  for (size_t i = 0; i < all->n; i++)
    if (all->items[i]->data == t->data) return true;
  return false;
}

/* Reverses the elements of the inputs: other values of the same kind. */
static void reverse_inputs(const tensors *inputs, const tensors *outs) {
  for (size_t i = 0; i < inputs->n; i++) {
    ec_tensor *t = inputs->items[i];
    const size_t item = ec_dtype_size(ec_tensor_dtype(t)), n = ec_tensor_nbytes(t);
    tensors before = *inputs;
    before.n = i;
    if (is_among(outs, t) || is_among(&before, t)) continue;
    for (size_t a = 0, b = n; a + item < b; a += item) {
      char one[16], *bytes = t->data;
      b -= item;
      memcpy(one, bytes + a, item);
      memcpy(bytes + a, bytes + b, item);
      memcpy(bytes + b, one, item);
    }
  }
}

static void copy_outs(const tensors *outs, char *bytes, bool out) {
  for (size_t i = 0; i < outs->n; bytes += ec_tensor_nbytes(outs->items[i]), i++) {
    const size_t n = ec_tensor_nbytes(outs->items[i]);
    if (n) memcpy(out ? bytes : outs->items[i]->data, out ? outs->items[i]->data : bytes, n);
  }
}

static ec_status compare_replayed(ec_call *c, const tensors *inputs, const tensors *outs,
                                  char *bytes) {
  char *first = bytes, *kernel = bytes + outs->bytes, *replayed = kernel + outs->bytes;
  copy_outs(outs, first, true);
  reverse_inputs(inputs, outs);
  const ec_record *record = c->record;
  c->record = NULL;
  ec_status status = c->op->fn(c);
  copy_outs(outs, kernel, true);
  memset(replayed, 0x5a, outs->bytes);
  copy_outs(outs, replayed, false);
  if (status == EC_OK && ec_record_run(record)) {
    copy_outs(outs, replayed, true);
    if (memcmp(kernel, replayed, outs->bytes) != 0)
      status = ec_fail(c->err, EC_INTERNAL, "%s: its record computes something else", c->op->name);
  } else {
    status = EC_OK;
  }
  reverse_inputs(inputs, outs);
  copy_outs(outs, first, false);
  return status;
}

/* Runs a kernel that may leave its loop to joined calls. If it does, that has to compute the same,
 * in pieces. */
static ec_status compare_joined(ec_call *c, const tensors *outs) {
  static ec_joined joined;
  char *bytes = ec_alloc(2 * outs->bytes), *parts = bytes + outs->bytes;
  if (!bytes) return ec_fail(c->err, EC_MEMORY_ALLOCATION_FAILED, "no memory");
  copy_outs(outs, bytes, true);
  joined = (ec_joined){.least = 1};
  c->joined = &joined;
  ec_status status = c->op->fn(c);
  c->joined = NULL;
  if (status == EC_OK && joined.count == 1) {
    memset(parts, 0x5a, outs->bytes);
    copy_outs(outs, parts, false);
    ec_joined_run(&joined, 1, NULL);
    copy_outs(outs, parts, true);
    if (memcmp(bytes, parts, outs->bytes) != 0)
      status = ec_fail(c->err, EC_INTERNAL, "%s: joined, it computes something else", c->op->name);
  }
  copy_outs(outs, bytes, false);
  ec_free(bytes);
  return status;
}

/* Runs a kernel. If it recorded its loops, they have to compute what the kernel computes, from
 * other elements. */
static ec_status run_recorded(ec_call *c) {
  ec_arena arena = {0};
  ec_record_memory memory = {&arena, 1 << 20, NULL};
  ec_record record = {.memory = &memory};
  tensors inputs = {0}, outs = {0};
  for (size_t i = 0; i < c->op->nargs; i++)
    add_tensors(c->op->args[i].written ? &outs : &inputs, c->args[i]);
  c->record = &record;
  ec_status status = c->op->fn(c);
  uint64_t elements = 0;
  bool in_place = false;
  for (size_t i = 0; i < outs.n; i++) elements += (uint64_t)outs.items[i]->numel;
  for (size_t i = 0; i < outs.n; i++) in_place = in_place || is_among(&inputs, outs.items[i]);
  for (size_t i = 0; i < c->op->nargs; i++)
    in_place = in_place || (c->op->args[i].written && !c->op->args[i].is_out);
  if (status == EC_OK && record.first && record.written >= elements && !in_place) {
    record.state = EC_RECORD_READY;
    outs.bytes = 0;
    for (size_t i = 0; i < outs.n; i++) outs.bytes += ec_tensor_nbytes(outs.items[i]);
    char *bytes = ec_alloc(3 * outs.bytes);
    if (bytes) status = compare_replayed(c, &inputs, &outs, bytes);
    ec_free(bytes);
    c->record = NULL;
    if (status == EC_OK && strcmp(c->op->family, "pointwise") == 0)
      status = compare_joined(c, &outs);
  }
  ec_arena_deinit(&arena);
  return status;
}

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
    ec_call call = {args, op, &scratch, &err, reference != 0, NULL, &random, NULL, NULL, NULL,
                    false, NULL, NULL, NULL};
    status = ec_op_check_float8(op, args, &err);
    if (status == EC_OK) status = reference ? op->fn(&call) : run_recorded(&call);
    if (ec_dropped_loop_ran() && status == EC_OK)
      status = ec_fail(&err, EC_NOT_SUPPORTED, "%s calls a loop of a dropped dtype", name);
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
#if defined __x86_64__ && !defined EC_SMALL
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
    /* a second input is the first one reversed */
    loops[i](n, (char *[]){(char *)out, (char *)in, (char *)(in + n - 1)}, (int64_t[]){4, 4, -4},
             &params);
    return 1;
  }
  return 0;
}
