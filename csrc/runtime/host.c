/* The host table: the runtime's functions for backends and plug-in operators. It depends on all
 * other files of this folder; callers of backends refer to it through host_call.h. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "backend/registry.h"
#include "core/alloc.h"
#include "core/small.h"
#include "runtime/load/cost.h"
#include "runtime/memory/planned.h"
#include "runtime/nested.h"
#include "runtime/program_internal.h"

static uint32_t host_fail(ec_host_call *call, uint32_t status, const char *fmt, ...) {
  char text[EC_ERROR_SIZE / 2];
  va_list args;
  va_start(args, fmt);
  vsnprintf(text, sizeof text, fmt, args);
  va_end(args);
  return (uint32_t)ec_fail(call->err, (ec_status)status, "%s", text);
}

/* Allocates memory and charges it as work, too: a payload may request copies of one constant in a
 * loop. */
static void *host_alloc(size_t size) {
  enum { BYTES = 64 }; /* bytes per step */
  const uint64_t work = (uint64_t)size * (EC_STEP / BYTES);
  return ec_budget_work(ec_budget_now(), work, NULL) == EC_OK ? ec_alloc_zeroed(size) : NULL;
}

static size_t host_thread_count(ec_host_call *call) {
  return call->threads ? ec_threads_count(call->threads) : 1;
}

static size_t host_output_count(ec_host_call *call) {
  return call->instr ? call->instr->count - call->instr->outputs_from : 0;
}

static int host_can_read(ec_host_call *call, const void *data, size_t size) {
  if (call->method && ec_is_planned(call->method, data, size)) return 1;
  return !EC_IS_SMALL && call->program && ec_program_bytes_from(call->program, data) >= size;
}

static int host_charge(size_t bytes) { return ec_budget_charge(bytes); }

static void *host_scratch(ec_host_call *call, size_t size) {
  return ec_arena_alloc(call->scratch, size, EC_ALIGN);
}

static uint32_t host_named_data(ec_host_call *call, const char *key, const void **data,
                                size_t *size) {
  const ec_named_data *entry = ec_program_data(call->program, key);
  if (!entry) return EC_NOT_FOUND;
  *data = entry->bytes.data;
  *size = entry->bytes.size;
  return (uint32_t)ec_charge_reading(entry->bytes.size, call->err);
}

static void host_parallel_for(ec_host_call *call, size_t count, size_t grain,
                              void (*fn)(void *user, size_t begin, size_t end), void *user) {
  ec_threads_run(call->threads, count, grain, fn, user);
}

/* ---- threads and tracing ----------------------------------------------------------------- */

static void host_release_pages(ec_host_call *call, const void *data, size_t size) {
  ec_program_release_pages(call->program, data, size);
}

static void *host_threadpool(ec_host_call *call) { return ec_threads_native(call->threads); }

static uint32_t host_trace_wants(ec_host_call *call) {
  if (EC_IS_SMALL || !call->trace) return 0;
  const unsigned keeps = ec_trace_keeps(call->trace);
  uint32_t wants = EC_BACKEND_TRACE_TIMES;
  if (keeps) wants |= EC_BACKEND_TRACE_VALUES;
  if (keeps & EC_TRACE_RANGES) wants |= EC_BACKEND_TRACE_INPUTS;
  if (keeps & EC_TRACE_ALTERS) wants |= EC_BACKEND_TRACE_ALTERS;
  return wants;
}

static void host_trace_node(ec_host_call *call, const ec_backend_node *node) {
  if (!EC_IS_SMALL && call->trace)
    ec_trace_node(call->trace, node->debug_handle, node->name, node->nanoseconds);
}

/* Returns data at an address that its items allow: constants of a payload may be anywhere. NULL
 * without memory. */
static void *aligned(ec_host_call *call, const ec_backend_tensor *value, size_t nbytes) {
  if ((uintptr_t)value->data % ec_dtype_size((ec_dtype)value->dtype) == 0) return value->data;
  void *copy = host_scratch(call, nbytes);
  return copy ? memcpy(copy, value->data, nbytes) : NULL;
}

/* Traces a backend's tensor. It may have any strides; tensors that are not dense are dropped. */
static void trace_tensor(ec_host_call *call, uint32_t debug_handle, bool is_output,
                         const ec_backend_tensor *value) {
  ec_tensor t;
  if (EC_IS_SMALL || !call->trace || value->dtype < 0 || value->dtype >= EC_DTYPE_COUNT) return;
  if (!ec_dtype_size((ec_dtype)value->dtype) ||
      ec_tensor_init(&t, (ec_dtype)value->dtype, value->rank, value->sizes, value->dim_order,
                     NULL) != EC_OK)
    return;
  const size_t nbytes = ec_tensor_nbytes(&t);
  t.data = nbytes <= value->nbytes ? aligned(call, value, nbytes) : NULL;
  if (t.data || !nbytes)
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

static size_t host_operator_schema(const char *name, char *text, size_t size) {
  const ec_op *op = ec_op_acquire(name);
  if (!op) return 0;
  const int length = snprintf(text, size, "%s", op->schema);
  ec_op_release(op);
  return length < 0 ? 0 : (size_t)length;
}

/* program_open of small builds: nothing is ever open. */
static uint32_t refuse_program(ec_host_call *call, const void *data, size_t size,
                               const char *method, ec_host_program **out) {
  (void)data, (void)size, (void)method, (void)out;
  return host_fail(call, EC_BACKEND_NOT_SUPPORTED,
                   "a small build of the runtime runs no programs inside payloads");
}

const ec_host ec_host_table = {
    .abi_version = EC_BACKEND_ABI_VERSION,
    .struct_size = sizeof(ec_host),
    .fail = host_fail,
    .alloc = host_alloc,
    .free = ec_free,
    .scratch = host_scratch,
    .named_data = host_named_data,
    .resize = ec_host_resize,
    .parallel_for = host_parallel_for,
    .program_open = EC_IS_SMALL ? refuse_program : ec_nested_open,
    .program_run = EC_IS_SMALL ? NULL : ec_nested_run,
    .program_close = EC_IS_SMALL ? NULL : ec_nested_close,
    .threadpool = host_threadpool,
    .release_pages = host_release_pages,
    .trace_wants = host_trace_wants,
    .trace_node = host_trace_node,
    .trace_value = host_trace_value,
    .trace_input = host_trace_input,
    .charge = host_charge,
    .thread_count = host_thread_count,
    .output_count = host_output_count,
    .operator_schema = host_operator_schema,
    .program_run_nodes = EC_IS_SMALL ? NULL : ec_nested_run_nodes,
    .can_read = host_can_read,
    .program_reset = EC_IS_SMALL ? NULL : ec_nested_reset,
};

ec_status ec_host_open_package(const ec_backend *backend, const ec_source *file,
                               ec_backend_package *out, ec_error *err) {
  uint32_t (*open)(const ec_backend *, const ec_host *, ec_host_call *, const void *, size_t,
                   ec_backend_package *) = EC_BACKEND_MEMBER(backend, open_package);
  ec_arena scratch = {0};
  if (!open)
    return ec_fail(err, EC_NOT_SUPPORTED, "backend '%s' opens no packages", backend->id);
  ec_host_call call = ec_host_call_of(NULL, &scratch, err);
  const uint32_t status = open(backend, &ec_host_table, &call, file->data, file->size, out);
  ec_arena_deinit(&scratch);
  return (ec_status)status;
}
