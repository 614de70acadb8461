/* BackendWithCompilerDemo: runs programs of the export tutorial, lowered with the export side's
 * demo compiler. Arguments are the program's inputs, then one output, all float32.
 * Like the reference's, its sine is x - x^3/6: the first two terms of the Taylor series. The option
 * "sine_terms", of the process or of one method, sets another number of terms. */
#include <stdatomic.h>
#include <string.h>
#include <time.h>

#include "demo.h"
#include "payload.h"

enum { MAX_RANK = 16, MAX_VALUE = 4, MAX_TERMS = 16 };
enum { LARGE = 1 << 16 }; /* minimum of operations per thread */

static const char sine_terms[] = "sine_terms";
static _Atomic int64_t default_terms = 2;

/* A float32 array: an argument, or the result of an operator. */
typedef struct view {
  const float *data;
  size_t rank;
  int64_t sizes[MAX_RANK], strides[MAX_RANK]; /* strides in elements */
} view;

/* One call of execute. */
typedef struct run {
  const ec_host *host;
  ec_host_call *call;
  const ec_backend_arg *args;
  int64_t sine_terms;
} run;

static bool mul_overflows(int64_t a, int64_t b, int64_t *out) {
  return __builtin_mul_overflow(a, b, out);
}

static view view_of(const ec_backend_tensor *tensor) {
  view v = {.data = tensor->data, .rank = tensor->rank};
  memcpy(v.sizes, tensor->sizes, v.rank * sizeof *v.sizes);
  memcpy(v.strides, tensor->strides, v.rank * sizeof *v.strides);
  return v;
}

/* Returns the offset in `v`, which broadcasts to `shape`, of element `index` (row-major in
 * `shape`). */
static int64_t offset_of(const view *v, const view *shape, int64_t index) {
  int64_t offset = 0;
  for (size_t d = shape->rank; d-- > 0;) {
    int64_t i = index % shape->sizes[d];
    index /= shape->sizes[d];
    size_t missing = shape->rank - v->rank;
    if (d >= missing && v->sizes[d - missing] != 1) offset += i * v->strides[d - missing];
  }
  return offset;
}

/* Allocates the result of `op`, with its rank and sizes set, and compares its size with the one in
 * the payload. */
static uint32_t new_result(const run *r, const demo_op *op, view *result, float **data) {
  int64_t numel = 1;
  bool overflows = false;
  for (size_t d = result->rank; d-- > 0;) {
    result->strides[d] = numel;
    if (mul_overflows(numel, result->sizes[d], &numel)) overflows = true;
  }
  if (overflows || numel != op->numel)
    return r->host->fail(r->call, EC_BACKEND_NOT_SUPPORTED,
                         "%s (debug handle %lld) has operands for a result of %lld elements, "
                         "compiled for %lld",
                         demo_kind_name(op->kind), (long long)op->debug_handle,
                         overflows ? -1LL : (long long)numel, (long long)op->numel);
  *data = r->host->scratch(r->call, numel ? (size_t)numel * sizeof(float) : 1);
  result->data = *data;
  return *data ? EC_BACKEND_OK
               : r->host->fail(r->call, EC_BACKEND_ALLOCATION_FAILED,
                               "no memory for %lld elements", (long long)numel);
}

/* The first terms of x - x^3/3! + x^5/5! - ... */
static double taylor_sine(double x, int64_t terms) {
  double term = x, sum = x;
  for (int64_t k = 1; k < terms; k++) {
    term *= -x * x / (double)(2 * k * (2 * k + 1));
    sum += term;
  }
  return sum;
}

static uint32_t run_sin(const run *r, const demo_op *op, const view *x, view *result) {
  float *out;
  *result = *x;
  uint32_t status = new_result(r, op, result, &out);
  if (status) return status;
  for (int64_t i = 0; i < op->numel; i++) {
    double v = x->data[offset_of(x, result, i)];
    out[i] = (float)taylor_sine(v, r->sine_terms);
  }
  return EC_BACKEND_OK;
}

static uint32_t run_add(const run *r, const demo_op *op, const view *a, const view *b,
                        view *result) {
  float *out;
  result->rank = a->rank > b->rank ? a->rank : b->rank;
  for (size_t d = 0; d < result->rank; d++) {
    size_t from_end = result->rank - d;
    int64_t m = from_end <= a->rank ? a->sizes[a->rank - from_end] : 1;
    int64_t n = from_end <= b->rank ? b->sizes[b->rank - from_end] : 1;
    if (m != n && m != 1 && n != 1)
      return r->host->fail(r->call, EC_BACKEND_INVALID_ARGUMENT,
                           "aten.add.Tensor (debug handle %lld): sizes %lld and %lld of dimension "
                           "%zu do not broadcast",
                           (long long)op->debug_handle, (long long)m, (long long)n, d);
    result->sizes[d] = m == 1 ? n : m;
  }
  uint32_t status = new_result(r, op, result, &out);
  if (status) return status;
  for (int64_t i = 0; i < op->numel; i++)
    out[i] = a->data[offset_of(a, result, i)] + b->data[offset_of(b, result, i)];
  return EC_BACKEND_OK;
}

typedef struct product {
  const view *a, *b;
  float *out;
} product;

/* Computes elements [begin, end) of a matrix product, in row-major order. */
static void multiply_rows(void *user, size_t begin, size_t end) {
  const product *p = user;
  for (size_t i = begin; i < end; i++) {
    const float *row = p->a->data + (int64_t)i / p->b->sizes[1] * p->a->strides[0];
    const float *column = p->b->data + (int64_t)i % p->b->sizes[1] * p->b->strides[1];
    float sum = 0;
    for (int64_t k = 0; k < p->a->sizes[1]; k++)
      sum += row[k * p->a->strides[1]] * column[k * p->b->strides[0]];
    p->out[i] = sum;
  }
}

static uint32_t run_mm(const run *r, const demo_op *op, const view *a, const view *b,
                       view *result) {
  float *out;
  if (a->rank != 2 || b->rank != 2 || a->sizes[1] != b->sizes[0])
    return r->host->fail(r->call, EC_BACKEND_INVALID_ARGUMENT,
                         "aten.mm.default (debug handle %lld) has operands of rank %zu and %zu "
                         "with inner sizes %lld and %lld, expected two matrices that fit",
                         (long long)op->debug_handle, a->rank, b->rank,
                         a->rank == 2 ? (long long)a->sizes[1] : -1LL,
                         b->rank == 2 ? (long long)b->sizes[0] : -1LL);
  result->rank = 2;
  result->sizes[0] = a->sizes[0];
  result->sizes[1] = b->sizes[1];
  uint32_t status = new_result(r, op, result, &out);
  if (status) return status;
  product p = {a, b, out};
  const size_t grain = 1 + LARGE / ((size_t)a->sizes[1] + 1);
  r->host->parallel_for(r->call, (size_t)op->numel, grain, multiply_rows, &p);
  return EC_BACKEND_OK;
}

static uint64_t nanoseconds(void) {
  struct timespec t;
  timespec_get(&t, TIME_UTC);
  return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* Reports an operator to a trace. */
static void trace_op(const run *r, uint32_t wants, const demo_op *op, uint64_t start,
                     view *result) {
  uint8_t order[MAX_RANK];
  for (size_t d = 0; d < result->rank; d++) order[d] = (uint8_t)d;
  const size_t nbytes = (size_t)op->numel * sizeof(float);
  const uint32_t handle = (uint32_t)op->debug_handle;
  const ec_backend_node node = {handle, demo_kind_name(op->kind), nanoseconds() - start};
  const ec_backend_tensor value = {(void *)(uintptr_t)result->data,
                                   nbytes,
                                   nbytes,
                                   EC_DTYPE_FLOAT32,
                                   (uint16_t)result->rank,
                                   false,
                                   result->sizes,
                                   result->strides,
                                   order};
  if (wants & EC_BACKEND_TRACE_TIMES) r->host->trace_node(r->call, &node);
  if (wants & EC_BACKEND_TRACE_VALUES) r->host->trace_value(r->call, handle, &value);
}

/* Runs all operators in the order of payload.c; `result` is that of the last one. */
static uint32_t run_ops(const run *r, const demo_program *program, view *result) {
  view previous = view_of(&r->args[0].as.tensor);
  size_t next = 1;
  const uint32_t wants = r->host->trace_wants(r->call);
  for (size_t i = 0; i < program->count; i++) {
    const demo_op *op = &program->ops[i];
    const uint64_t start = wants ? nanoseconds() : 0;
    uint32_t status;
    if (op->kind == DEMO_SIN) {
      status = run_sin(r, op, &previous, result);
    } else {
      view other = view_of(&r->args[next++].as.tensor);
      status = (op->kind == DEMO_MM ? run_mm : run_add)(r, op, &previous, &other, result);
    }
    if (status) return status;
    if (wants) trace_op(r, wants, op, start, result);
    previous = *result;
  }
  return EC_BACKEND_OK;
}

static uint32_t check_args(const run *r, const demo_program *program, size_t count) {
  if (count != program->inputs + 1)
    return r->host->fail(r->call, EC_BACKEND_INVALID_ARGUMENT,
                         "the program passes %zu arguments, expected %zu (%zu inputs, 1 output)",
                         count, program->inputs + 1, program->inputs);
  for (size_t i = 0; i < count; i++) {
    if (r->args[i].kind != EC_BACKEND_TENSOR)
      return r->host->fail(r->call, EC_BACKEND_INVALID_ARGUMENT,
                           "argument %zu has kind %u, expected a tensor", i, r->args[i].kind);
    if (r->args[i].as.tensor.dtype != EC_DTYPE_FLOAT32)
      return r->host->fail(r->call, EC_BACKEND_INVALID_ARGUMENT,
                           "argument %zu has dtype number %d, expected %d (float32)", i,
                           (int)r->args[i].as.tensor.dtype, EC_DTYPE_FLOAT32);
    if (r->args[i].as.tensor.rank > MAX_RANK)
      return r->host->fail(r->call, EC_BACKEND_INVALID_ARGUMENT,
                           "argument %zu has rank %u, expected at most %d", i,
                           (unsigned)r->args[i].as.tensor.rank, MAX_RANK);
  }
  return EC_BACKEND_OK;
}

/* Runs the program. The output is resized only after all inputs have been read, so that a program
 * may pass one tensor as input and output. */
static uint32_t compiler_execute(const ec_backend *self, const ec_host *host, ec_host_call *call,
                                 void *handle, ec_backend_arg *args, size_t count) {
  (void)self;
  demo_program *program = handle;
  run r = {host, call, args, program->sine_terms};
  view result = {0};
  uint32_t status = check_args(&r, program, count);
  if (!status) status = run_ops(&r, program, &result);
  if (!status) status = host->resize(call, &args[count - 1], result.rank, result.sizes);
  if (status) return status;
  ec_backend_tensor *out = &args[count - 1].as.tensor;
  view target = view_of(out);
  for (int64_t i = 0; i < program->ops[program->count - 1].numel; i++)
    ((float *)out->data)[offset_of(&target, &result, i)] = result.data[i];
  program->calls++;
  return EC_BACKEND_OK;
}

/* Checks the compile specs. The reference's device accepts numbers up to 4; the export side writes
 * the limit into the spec "max_value" with any number of bytes. Without it there is no limit. */
static uint32_t check_specs(const ec_host *host, ec_host_call *call, const ec_backend_init *init) {
  for (size_t i = 0; i < init->spec_count; i++) {
    const ec_backend_spec *spec = &init->specs[i];
    if (strcmp(spec->key, "max_value") != 0) continue;
    uint64_t value = 0;
    for (size_t b = spec->size; b-- > 0;)
      value = value >> 56 ? UINT64_MAX : value << 8 | ((const uint8_t *)spec->value)[b];
    if (value > MAX_VALUE)
      return host->fail(call, EC_BACKEND_INVALID_ARGUMENT,
                        "compile spec max_value is %llu, expected at most %d",
                        (unsigned long long)value, MAX_VALUE);
  }
  return EC_BACKEND_OK;
}

/* Reads an option of the process or of a method. */
static uint32_t read_option(const ec_host *host, ec_host_call *call,
                            const ec_backend_option *option, int64_t *terms) {
  if (strcmp(option->key, sine_terms) != 0) return EC_BACKEND_NOT_FOUND;
  if (option->kind != EC_BACKEND_INT)
    return host->fail(call, EC_BACKEND_INVALID_ARGUMENT, "option '%s' has kind %u, expected an int",
                      option->key, option->kind);
  if (option->as.i < 1 || option->as.i > MAX_TERMS)
    return host->fail(call, EC_BACKEND_INVALID_ARGUMENT, "option '%s' is %lld, expected 1 to %d",
                      option->key, (long long)option->as.i, MAX_TERMS);
  *terms = option->as.i;
  return EC_BACKEND_OK;
}

static uint32_t set_option(const ec_backend *self, const ec_host *host, ec_host_call *call,
                           const ec_backend_option *option) {
  (void)self;
  int64_t terms = 0;
  uint32_t status = read_option(host, call, option, &terms);
  if (!status) default_terms = terms;
  return status;
}

static uint32_t get_option(const ec_backend *self, const ec_host *host, ec_host_call *call,
                           ec_backend_option *option) {
  (void)self;
  (void)host;
  (void)call;
  if (strcmp(option->key, sine_terms) != 0) return EC_BACKEND_NOT_FOUND;
  option->kind = EC_BACKEND_INT;
  option->as.i = default_terms;
  return EC_BACKEND_OK;
}

/* Reads the options. Options of the method override those of the process; unknown ones are
 * refused. */
static uint32_t read_options(const ec_host *host, ec_host_call *call, const ec_backend_init *init,
                             int64_t *terms) {
  *terms = default_terms;
  for (size_t i = 0; i < init->option_count; i++) {
    uint32_t status = read_option(host, call, &init->options[i], terms);
    if (status == EC_BACKEND_NOT_FOUND)
      return host->fail(call, EC_BACKEND_INVALID_ARGUMENT, "unknown option '%s', expected '%s'",
                        init->options[i].key, sine_terms);
    if (status) return status;
  }
  return EC_BACKEND_OK;
}

static uint32_t compiler_init(const ec_backend *self, const ec_host *host, ec_host_call *call,
                              const ec_backend_init *what, void **handle) {
  (void)self;
  demo_program *program = NULL;
  int64_t terms = 0;
  uint32_t status = check_specs(host, call, what);
  if (!status) status = read_options(host, call, what, &terms);
  if (!status) status = demo_payload_parse(host, call, what, &program);
  if (!status) program->sine_terms = terms;
  *handle = program;
  return status;
}

static void compiler_destroy(const ec_backend *self, const ec_host *host, void *handle) {
  (void)self;
  host->free(handle);
}

static void compiler_report(const ec_backend *self, void *handle,
                            void (*add)(void *user, const char *name, int64_t value), void *user) {
  (void)self;
  const demo_program *program = handle;
  add(user, "operators", (int64_t)program->count);
  add(user, sine_terms, program->sine_terms);
  add(user, "calls", program->calls);
}

/* Describes the nodes in the order of payload.c. Ids are those of the inputs, then of results. The
 * payload has no shapes. */
static uint32_t compiler_describe(const ec_backend *self, const ec_host *host, ec_host_call *call,
                                  const ec_backend_init *init, const ec_backend_visitor *visitor) {
  (void)self;
  demo_program *p = NULL;
  uint32_t status = demo_payload_parse(host, call, init, &p), last = 0, next = 1;
  if (status) return status;
  for (uint32_t i = 0; i <= p->inputs; i++) { /* inputs, then the output */
    const uint32_t id = i < p->inputs ? i : (uint32_t)(p->inputs + p->count) - 1;
    const ec_backend_inner_value value = {.id = id, .argument = i, .dtype = "float32"};
    visitor->value(visitor->user, &value);
  }
  for (uint32_t i = 0; i < p->count; i++) {
    const bool unary = p->ops[i].kind == DEMO_SIN;
    const uint32_t inputs[] = {last, unary ? 0 : next}, output = (uint32_t)p->inputs + i;
    const ec_backend_inner_value value = {.id = output, .argument = UINT32_MAX, .dtype = "float32"};
    const ec_backend_inner_node node = {
      .debug_handle = (uint32_t)p->ops[i].debug_handle, .name = demo_kind_name(p->ops[i].kind),
      .inputs = inputs, .outputs = &output, .input_count = unary ? 1 : 2, .output_count = 1};
    if (i + 1 < p->count) visitor->value(visitor->user, &value);
    visitor->node(visitor->user, &node);
    last = output;
    next += !unary;
  }
  host->free(p);
  return EC_BACKEND_OK;
}

static const char *const keys[] = {sine_terms, NULL};

const ec_backend demo_compiler_backend = {
  .abi_version = EC_BACKEND_ABI_VERSION,
  .struct_size = sizeof(ec_backend),
  .id = "BackendWithCompilerDemo",
  .version = "0",
  .init = compiler_init,
  .execute = compiler_execute,
  .destroy = compiler_destroy,
  .set_option = set_option,
  .get_option = get_option,
  .option_keys = keys,
  .report = compiler_report,
  .describe = compiler_describe,
};
