/* What the runtime lends to backends. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "core/alloc.h"
#include "runtime/impl.h"

ec_host_call ec_host_call_of(const ec_method *m, ec_arena *scratch, ec_error *err) {
  ec_host_call call = {.err = err, .scratch = scratch};
  if (!m) return call;
  call.program = m->program;
  call.threads = m->threads;
  call.trace = m->trace;
  call.depth = m->depth;
  return call;
}

static uint32_t host_fail(ec_host_call *call, uint32_t status, const char *fmt, ...) {
  char text[EC_ERROR_SIZE / 2];
  va_list args;
  va_start(args, fmt);
  vsnprintf(text, sizeof text, fmt, args);
  va_end(args);
  return (uint32_t)ec_fail(call->err, (ec_status)status, "%s", text);
}

/* What a payload has allocated is work as well: it may tell to copy a constant again and again. */
static void *host_alloc(size_t size) {
  enum { BYTES = 64 }; /* in a step */
  const uint64_t work = (uint64_t)size * (EC_STEP / BYTES);
  return ec_budget_work(ec_budget_now(), work, NULL) == EC_OK ? ec_alloc_zeroed(size) : NULL;
}

static void *host_scratch(ec_host_call *call, size_t size) {
  return ec_arena_alloc(call->scratch, size, EC_ALIGN);
}

static uint32_t host_named_data(ec_host_call *call, const char *key, const void **data,
                                size_t *size) {
  const ec_named_data *entry = ec_program_data(call->program, key);
  if (!entry) return EC_NOT_FOUND;
  *data = entry->bytes.data;
  *size = entry->bytes.size;
  return (uint32_t)ec_load_again(entry->bytes.size, call->err);
}

/* Whether an argument is another one as well, which the backend reads with the shape that it had
 * when the call began. */
static bool is_repeated(const ec_host_call *call, const ec_backend_arg *arg) {
  const ec_instr *in = call->instr;
  return in && arg >= in->views && arg < in->views + in->count && in->repeated[arg - in->views];
}

static uint32_t host_resize(ec_host_call *call, ec_backend_arg *arg, size_t rank,
                            const int64_t *sizes) {
  if (arg->kind != EC_BACKEND_TENSOR)
    return (uint32_t)ec_fail(call->err, EC_INVALID_ARGUMENT, "an output is a %s, expected a tensor",
                             ec_kind_name((ec_kind)arg->kind));
  if (!arg->as.tensor.writable)
    return (uint32_t)ec_fail(call->err, EC_INVALID_PROGRAM, "an output is a constant");
  ec_value *value = arg->slot;
  if (is_repeated(call, arg) && !ec_tensor_has_sizes(value->as.tensor, rank, sizes))
    return (uint32_t)ec_fail(call->err, EC_INVALID_PROGRAM,
                             "an output whose shape changes is another argument, too");
  ec_status status = ec_tensor_resize(value->as.tensor, rank, sizes, call->err);
  ec_view_arg(value, arg);
  return (uint32_t)status;
}

static void host_parallel_for(ec_host_call *call, size_t count, size_t grain,
                              void (*fn)(void *user, size_t begin, size_t end), void *user) {
  ec_threads_run(call->threads, count, grain, fn, user);
}

/* ---- programs inside payloads ------------------------------------------------------------ */

struct ec_host_program {
  ec_program *program;
  ec_method *method;
};

static void host_program_close(ec_host_program *nested) {
  if (!nested) return;
  ec_method_free(nested->method);
  ec_program_free(nested->program);
  ec_free(nested);
}

static ec_status open_nested(ec_host_call *call, ec_source *source, const char *method,
                             ec_host_program *nested) {
  const ec_program_options options = {.verification = EC_VERIFY_INTERNAL_CONSISTENCY};
  const ec_method_options method_options = {.threads = ec_threads_count(call->threads)};
  EC_TRY(ec_program_open(&options, source, NULL, 0, &nested->program, call->err));
  nested->program->outer = call->program;
  return ec_method_load_nested(nested->program, method, &method_options, call->depth + 1,
                               &nested->method, call->err);
}

static uint32_t host_program_open(ec_host_call *call, const void *data, size_t size,
                                  const char *method, ec_host_program **out) {
  enum { NESTED = 16000 }; /* what opening costs, in bytes that are read */
  ec_source source;
  if (call->depth + 1 >= EC_MAX_NESTED_PROGRAMS)
    return (uint32_t)ec_fail(call->err, EC_NOT_SUPPORTED, "programs nested deeper than %d",
                             EC_MAX_NESTED_PROGRAMS);
  ec_host_program *nested = ec_alloc_zeroed(sizeof *nested);
  if (!nested) return (uint32_t)ec_fail(call->err, EC_MEMORY_ALLOCATION_FAILED, "no memory");
  ec_status status = ec_load_again(size + NESTED, call->err);
  if (status == EC_OK)
    status = ec_source_open_buffer(&source, data, size, NULL, NULL, call->err);
  if (status == EC_OK) status = open_nested(call, &source, method, nested);
  if (status != EC_OK) {
    host_program_close(nested);
    return (uint32_t)ec_fail_in(call->err, status, "nested program");
  }
  *out = nested;
  return EC_OK;
}

static ec_status bind_nested_input(ec_method *m, size_t index, const ec_backend_arg *arg,
                                   ec_error *err) {
  int64_t strides[EC_MAX_RANK];
  const ec_backend_tensor *t = &arg->as.tensor;
  switch (arg->kind) {
  case EC_BACKEND_TENSOR: {
    size_t item = ec_dtype_size((ec_dtype)t->dtype);
    for (size_t d = 0; d < t->rank; d++) strides[d] = t->strides[d] * (int64_t)item;
    ec_array array = {t->data, (ec_dtype)t->dtype, t->rank, t->sizes, strides};
    return ec_method_bind_input(m, index, &array, err);
  }
  case EC_BACKEND_STRING: return ec_method_bind_string(m, index, arg->as.string.data, err);
  case EC_BACKEND_INT:
    return ec_method_bind_scalar(m, index, (ec_scalar){EC_KIND_INT, {.i = arg->as.i}}, err);
  case EC_BACKEND_DOUBLE:
    return ec_method_bind_scalar(m, index, (ec_scalar){EC_KIND_DOUBLE, {.d = arg->as.d}}, err);
  case EC_BACKEND_BOOL:
    return ec_method_bind_scalar(m, index, (ec_scalar){EC_KIND_BOOL, {.b = arg->as.b}}, err);
  default: return ec_method_bind_none(m, index, err);
  }
}

/* Copies a result out; both sides are dense, in dim orders that must agree. */
static ec_status take_nested_output(const ec_method *m, size_t index, ec_host_call *call,
                                    ec_backend_arg *arg) {
  const ec_value *v = ec_method_output(m, index);
  if (v->kind != EC_KIND_TENSOR || arg->kind != EC_BACKEND_TENSOR)
    return ec_fail(call->err, EC_NOT_SUPPORTED, "output %zu is a %s, expected a tensor", index,
                   ec_kind_name((ec_kind)v->kind));
  const ec_tensor *t = v->as.tensor;
  if (t->dtype != arg->as.tensor.dtype || t->rank != arg->as.tensor.rank ||
      memcmp(t->dim_order, arg->as.tensor.dim_order, t->rank) != 0)
    return ec_fail(call->err, EC_INVALID_PROGRAM, "output %zu is %s of rank %u, expected %s of %u",
                   index, ec_dtype_name(ec_tensor_dtype(t)), t->rank,
                   ec_dtype_name((ec_dtype)arg->as.tensor.dtype), arg->as.tensor.rank);
  EC_TRY((ec_status)host_resize(call, arg, t->rank, t->sizes));
  if (t->numel) memmove(arg->as.tensor.data, t->data, ec_tensor_nbytes(t));
  return EC_OK;
}

/* Its events are those of the call, one deeper. */
static ec_status execute_nested(ec_method *m, ec_host_call *call) {
  if (!call->trace) return ec_method_execute(m, call->err);
  m->trace = call->trace;
  ec_trace_nest(call->trace, 1);
  ec_status status = ec_method_execute(m, call->err);
  ec_trace_nest(call->trace, -1);
  m->trace = NULL;
  return status;
}

static uint32_t host_program_run(ec_host_call *call, ec_host_program *nested, ec_backend_arg *args,
                                 size_t count) {
  ec_method *m = nested->method;
  size_t inputs = ec_method_input_count(m), outputs = ec_method_output_count(m);
  if (count != inputs + outputs)
    return (uint32_t)ec_fail(call->err, EC_INVALID_PROGRAM,
                             "%zu arguments, the nested program has %zu inputs and %zu outputs",
                             count, inputs, outputs);
  ec_status status = ec_method_lock(m, NULL, call->err);
  if (status != EC_OK) return (uint32_t)ec_fail_in(call->err, status, "nested program");
  for (size_t i = 0; i < inputs && status == EC_OK; i++)
    status = bind_nested_input(m, i, &args[i], call->err);
  if (status == EC_OK) status = execute_nested(m, call);
  for (size_t i = 0; i < outputs && status == EC_OK; i++)
    status = take_nested_output(m, i, call, &args[inputs + i]);
  ec_method_unlock(m);
  return (uint32_t)(status == EC_OK ? EC_OK : ec_fail_in(call->err, status, "nested program"));
}

/* ---- threads and tracing ----------------------------------------------------------------- */

static void host_release_pages(ec_host_call *call, const void *data, size_t size) {
  for (const ec_program *p = call->program; p; p = p->outer) {
    ec_source_forget(&p->file, data, size);
    for (size_t i = 0; i < p->data_count; i++) ec_source_forget(&p->data[i], data, size);
  }
}

static void *host_threadpool(ec_host_call *call) { return ec_threads_native(call->threads); }

static uint32_t host_trace_wants(ec_host_call *call) {
  if (!call->trace) return 0;
  const unsigned keeps = ec_trace_keeps(call->trace);
  uint32_t wants = EC_BACKEND_TRACE_TIMES;
  if (keeps) wants |= EC_BACKEND_TRACE_VALUES;
  if (keeps & EC_TRACE_RANGES) wants |= EC_BACKEND_TRACE_INPUTS;
  return wants;
}

static void host_trace_node(ec_host_call *call, const ec_backend_node *node) {
  if (call->trace) ec_trace_node(call->trace, node->debug_handle, node->name, node->nanoseconds);
}

/* A backend's own tensor may be anything: what is no dense tensor is left out. */
static void trace_tensor(ec_host_call *call, uint32_t debug_handle, bool is_output,
                         const ec_backend_tensor *value) {
  ec_tensor t;
  if (!call->trace || value->dtype < 0 || value->dtype >= EC_DTYPE_COUNT) return;
  if (!ec_dtype_size((ec_dtype)value->dtype) ||
      ec_tensor_init(&t, (ec_dtype)value->dtype, value->rank, value->sizes, value->dim_order,
                     NULL) != EC_OK)
    return;
  t.data = value->data;
  if (ec_tensor_nbytes(&t) <= value->nbytes)
    ec_trace_node_value(call->trace, debug_handle, is_output, &t);
}

static void host_trace_value(ec_host_call *call, uint32_t debug_handle,
                             const ec_backend_tensor *value) {
  trace_tensor(call, debug_handle, true, value);
}

static void host_trace_input(ec_host_call *call, uint32_t debug_handle,
                             const ec_backend_tensor *value) {
  trace_tensor(call, debug_handle, false, value);
}

const ec_host ec_host_table = {
    .abi_version = EC_BACKEND_ABI_VERSION,
    .struct_size = sizeof(ec_host),
    .fail = host_fail,
    .alloc = host_alloc,
    .free = ec_free,
    .scratch = host_scratch,
    .named_data = host_named_data,
    .resize = host_resize,
    .parallel_for = host_parallel_for,
    .program_open = host_program_open,
    .program_run = host_program_run,
    .program_close = host_program_close,
    .threadpool = host_threadpool,
    .release_pages = host_release_pages,
    .trace_wants = host_trace_wants,
    .trace_node = host_trace_node,
    .trace_value = host_trace_value,
    .trace_input = host_trace_input,
};
