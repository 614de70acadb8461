/* XnnpackBackend: the interface of backend.h. */
#include <unistd.h>

#include "call.h"
#include "delegate_at_load/run.h"
#include "nodes/describe.h"
#include "nodes/graph.h"
#include "nodes/read_graph.h"
#include "options.h"
#include "payload/payload.h"
#include "run/cache.h"
#include "run/cost.h"
#include "run/delegate.h"
#include "run/engine.h"
#include "run/execute.h"
#include "run/forks.h"
#include "run/lookup.h"
#include "run/memory.h"
#include "run/trace.h"
#include "run/workspace.h"
#include "status.h"
#include "xnnpack_backend.h"

static void close_delegate(const ec_host *host, ecx_delegate *d) {
  for (int role = 0; role < ECX_ROLES; role++) ecx_engine_close(host, d, (ecx_role)role);
  if (d->workspace) ecx_workspace_close(d->workspace);
  if (d->cache) ecx_cache_close(d->cache);
  for (uint32_t i = 0; d->externals && i < d->external_count; i++)
    ecx_buffer_close(host, &d->externals[i].staging);
  ecx_shown_close(host, d);
  if (d->externals) host->free(d->externals);
  if (d->pointers) host->free(d->pointers);
  ecx_graph_close(host, &d->graph);
  ecx_draft_close(host, &d->draft);
  if (d->written) host->free(d->written);
  host->free(d);
}

/* Lists the delegate's arguments. Inputs that no node reads are ignored. */
static uint32_t list_externals(const ecx_call *c, ecx_delegate *d) {
  const ecx_graph *g = &d->graph;
  size_t most = g->input_count + g->output_count + 1u;
  d->externals = c->host->alloc(most * sizeof *d->externals);
  d->pointers = c->host->alloc(most * sizeof *d->pointers);
  if (!d->externals || !d->pointers)
    return ecx_fail(c, EC_BACKEND_ALLOCATION_FAILED, "no memory for %zu arguments", most - 1);
  for (uint32_t i = 0; i < g->input_count; i++)
    if (g->values[g->inputs[i]].readers) d->externals[d->external_count++].value = g->inputs[i];
  d->input_count = d->external_count;
  for (uint32_t i = 0; i < g->output_count; i++)
    d->externals[d->external_count++].value = g->outputs[i];
  for (uint32_t i = 0; i < d->external_count; i++)
    d->externals[i].position = g->values[d->externals[i].value].external;
  return EC_BACKEND_OK;
}

/* XNNPACK knows the processor by cpuinfo, which reads a file. */
static const char *hardware_hint(enum xnn_status status) {
  if (status != xnn_status_unsupported_hardware || access("/proc/cpuinfo", R_OK) == 0) return "";
  return " (/proc/cpuinfo cannot be read: is /proc mounted?)";
}

static uint32_t start_xnnpack(const ecx_call *c) {
  ecx_watch_forks();
  enum xnn_status status = ecx_memory_init(c->host);
  if (status == xnn_status_success) return EC_BACKEND_OK;
  return ecx_fail(c, ecx_status_code(status), "XNNPACK cannot run on this machine: '%s'%s",
                  ecx_status_name(status), hardware_hint(status));
}

/* Makes the runtime of a delegate with a graph. */
static uint32_t open_delegate(const ecx_call *c, const ec_backend_init *what,
                              const ecx_options *options, ecx_delegate *d) {
  ECX_TRY(list_externals(c, d));
  ECX_TRY(ecx_find_lookups(c, &d->graph));
  ECX_TRY(ecx_workspace_open(c, options->sharing, what, &d->workspace));
  if (options->cache) ECX_TRY(ecx_cache_open(c, &d->graph, what->program, &d->cache));
  ECX_TRY(ecx_workspace_enter(c, d->workspace));
  uint32_t status = ecx_engine_build(c, d, ECX_PLAIN_RUN);
  ecx_workspace_leave(d->workspace);
  return status;
}

static uint32_t open_payload(const ecx_call *c, const ec_backend_init *what, const void *unused,
                             ecx_delegate *d) {
  ecx_payload payload;
  ecx_options options;
  (void)unused;
  ECX_TRY(start_xnnpack(c));
  ECX_TRY(ecx_options_read(c, what, &options));
  ECX_TRY(ecx_payload_open(c, what->payload, what->payload_size, &payload));
  ECX_TRY(ecx_graph_open(c, &payload, &d->graph));
  return open_delegate(c, what, &options, d);
}

/* Multiplications of a run that is worth the call of a delegate, and of each of its nodes:
 * in that time the runtime repeats a few recorded calls (csrc/kernels/record.h). */
enum { WORTH_A_CALL = 50000, WORTH_A_NODE = 8000 };

static bool is_worth_a_call(const ecx_graph *g) {
  double nodes = 0;
  for (uint32_t i = 0; i < g->node_count; i++) nodes += !g->nodes[i].is_dead;
  return ecx_graph_gain(g) >= WORTH_A_CALL + WORTH_A_NODE * nodes;
}

/* Checks that the graph computes the shapes that the program states. */
static uint32_t check_run(const ecx_call *c, const ec_backend_run *run, const ecx_delegate *d) {
  if (!run->always && !is_worth_a_call(&d->graph))
    return ecx_fail(c, EC_BACKEND_NOT_SUPPORTED, "too little work for a delegate");
  for (uint32_t i = 0; i < d->graph.value_count; i++) {
    const ecx_shape *stated = &d->draft.values[i].shape, *inferred = &d->graph.values[i].shape;
    bool same = stated->rank == inferred->rank;
    for (size_t k = 0; same && k < inferred->rank; k++)
      same = stated->dims[k] == inferred->dims[k];
    if (!same) return ecx_fail(c, EC_BACKEND_NOT_SUPPORTED, "a result of another shape");
  }
  return EC_BACKEND_OK;
}

static uint32_t open_run(const ecx_call *c, const ec_backend_init *what, const void *run,
                         ecx_delegate *d) {
  ecx_payload payload;
  ecx_options options;
  ECX_TRY(start_xnnpack(c));
  ECX_TRY(ecx_options_read(c, what, &options));
  ECX_TRY(ecx_delegate_run(c, run, &d->draft));
  ECX_TRY(ecx_draft_write(&d->draft, &d->written, &payload));
  ECX_TRY(ecx_graph_open(c, &payload, &d->graph));
  ECX_TRY(check_run(c, run, d));
  return open_delegate(c, what, &options, d);
}

/* Creates a delegate of a payload or of a run. */
static uint32_t create_delegate(const ec_host *host, ec_host_call *call,
                                const ec_backend_init *what,
                                uint32_t (*open)(const ecx_call *c, const ec_backend_init *what,
                                                 const void *run, ecx_delegate *d),
                                const void *run, void **handle) {
  const ecx_call c = {host, call};
  ecx_delegate *d = host->alloc(sizeof *d);
  if (!d) return ecx_fail(&c, EC_BACKEND_ALLOCATION_FAILED, "no memory for a delegate");
  uint32_t status = open(&c, what, run, d);
  if (status)
    close_delegate(host, d);
  else
    *handle = d;
  return status;
}

static uint32_t xnnpack_init(const ec_backend *self, const ec_host *host, ec_host_call *call,
                             const ec_backend_init *what, void **handle) {
  (void)self;
  return create_delegate(host, call, what, open_payload, NULL, handle);
}

static const char *xnnpack_can_delegate(const ec_backend *self,
                                        const ec_backend_kernel_call *call) {
  (void)self;
  return ecx_can_delegate(call);
}

static uint32_t xnnpack_delegate_run(const ec_backend *self, const ec_host *host,
                                     ec_host_call *call, const ec_backend_init *what,
                                     const ec_backend_run *run, void **handle) {
  (void)self;
  return create_delegate(host, call, what, open_run, run, handle);
}

static uint32_t xnnpack_execute(const ec_backend *self, const ec_host *host, ec_host_call *call,
                        void *handle, ec_backend_arg *args, size_t count) {
  (void)self;
  const ecx_call c = {host, call};
  return ecx_execute(&c, handle, args, count);
}

static uint32_t xnnpack_repeat(const ec_backend *self, const ec_host *host, ec_host_call *call,
                               void *handle) {
  (void)self;
  const ecx_call c = {host, call};
  return ecx_repeat(&c, handle);
}

static void xnnpack_destroy(const ec_backend *self, const ec_host *host, void *handle) {
  (void)self;
  close_delegate(host, handle);
}

static size_t xnnpack_output_count(const ec_backend *self, void *handle) {
  (void)self;
  return ((const ecx_delegate *)handle)->graph.output_count;
}

static uint32_t set_option(const ec_backend *self, const ec_host *host, ec_host_call *call,
                           const ec_backend_option *option) {
  (void)self;
  const ecx_call c = {host, call};
  return ecx_options_set(&c, option);
}

static uint32_t get_option(const ec_backend *self, const ec_host *host, ec_host_call *call,
                           ec_backend_option *option) {
  (void)self;
  (void)host;
  (void)call;
  return ecx_options_get(option);
}

/* Returns the bytes of arguments that the last call has copied. */
static int64_t count_copied(const ecx_delegate *d) {
  size_t bytes = 0;
  for (uint32_t i = 0; i < d->external_count; i++)
    if (d->externals[i].is_staged) bytes += d->externals[i].staging.bytes;
  return (int64_t)bytes;
}

static void xnnpack_report(const ec_backend *self, void *handle,
                   void (*add)(void *user, const char *name, int64_t value), void *user) {
  (void)self;
  const ecx_delegate *d = handle;
  int64_t nodes = 0, integer_nodes = 0;
  for (uint32_t i = 0; i < d->graph.node_count; i++) {
    const ecx_node *n = &d->graph.nodes[i];
    if (n->is_dead) continue;
    nodes++;
    const bool computes = n->kind->types != ECX_CONVERSION && n->kind->types != ECX_MOVE;
    integer_nodes += computes && ecx_in(&d->graph, n, 0)->scheme != ECX_PLAIN;
  }
  add(user, "nodes", nodes);
  add(user, "integer_nodes", integer_nodes);
  add(user, "tables", (int64_t)ecx_count_lookups(&d->graph));
  add(user, "copied_bytes", count_copied(d));
  add(user, "workspace_bytes", (int64_t)d->workspace->bytes);
  if (!d->cache) {
    add(user, "packed_bytes", (int64_t)d->own_packed);
    return;
  }
  ecx_cache_figures figures = ecx_cache_report(d->cache);
  add(user, "packed_bytes", (int64_t)figures.packed_bytes);
  add(user, "shared_packed_bytes", (int64_t)figures.shared_bytes);
  add(user, "cache_hits", (int64_t)figures.hits);
  add(user, "cache_misses", (int64_t)figures.misses);
}

static uint32_t xnnpack_describe(const ec_backend *self, const ec_host *host, ec_host_call *call,
                         const ec_backend_init *what, const ec_backend_visitor *visitor) {
  (void)self;
  const ecx_call c = {host, call};
  return ecx_describe(&c, what, visitor);
}

/* The patches of third_party that the linked XNNPACK has (../README.md). */
#if defined EXECUTORCH_C_SPEED
#define SERIES ""
#elif defined EXECUTORCH_C_CORRECTIONS
#define SERIES ", corrections alone"
#else
#define SERIES ", unpatched"
#endif

const ec_backend ecx_backend = {
  .abi_version = EC_BACKEND_ABI_VERSION,
  .struct_size = sizeof(ec_backend),
  .id = "XnnpackBackend",
  .version = "XNNPACK 2024-11-08" SERIES,
  .init = xnnpack_init,
  .execute = xnnpack_execute,
  .destroy = xnnpack_destroy,
  .set_option = set_option,
  .get_option = get_option,
  .option_keys = ecx_option_keys,
  .report = xnnpack_report,
  .describe = xnnpack_describe,
  .refuse_call = xnnpack_can_delegate,
  .init_run = xnnpack_delegate_run,
  .output_count = xnnpack_output_count,
  .repeat = xnnpack_repeat,
};
