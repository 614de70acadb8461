/* XNNPACK runtimes of a delegate: created, reshaped and set up after changes, run. */
#include "run/engine.h"

#include <stdio.h>
#include <string.h>

#include "call.h"
#include "nodes/elide.h"
#include "nodes/graph.h"
#include "nodes/infer.h"
#include "nodes/shapes_window.h"
#include "payload/values.h"
#include "run/build.h"
#include "run/cache.h"
#include "run/cost.h"
#include "run/delegate.h"
#include "run/memory.h"
#include "run/workspace.h"
#include "status.h"

static const ecx_value *value_of(const ecx_delegate *d, uint32_t external) {
  return &d->graph.values[d->externals[external].value];
}

static uint32_t fail_runtime(const ecx_call *c, const ecx_delegate *d, const char *what,
                             enum xnn_status status) {
  char text[ECX_TEXT] = "", shape[ECX_TEXT / 4];
  for (uint32_t i = 0; i < d->input_count; i++) {
    size_t used = strlen(text);
    snprintf(text + used, sizeof text - used, "%s%s", i ? ", " : "",
             ecx_shape_text(&value_of(d, i)->shape, shape, sizeof shape));
  }
  return ecx_fail(c, ecx_status_code(status),
                  "%s failed: '%s' for inputs %s of a delegate of %u nodes", what,
                  ecx_status_name(status), text, (unsigned)d->graph.node_count);
}

/* ---- creation -------------------------------------------------------------------------------- */

/* Lists the externals, and for the shown run every computed value. */
static uint32_t list_pointers(const ecx_call *c, ecx_delegate *d, ecx_role role) {
  ecx_engine *e = &d->engines[role];
  const ecx_graph *g = &d->graph;
  size_t most = d->external_count + (role == ECX_SHOWN_RUN ? g->value_count : 0) + 1u;
  if (e->pointers) return EC_BACKEND_OK;
  e->pointers = c->host->alloc(most * sizeof *e->pointers);
  if (!e->pointers) return ecx_fail(c, EC_BACKEND_ALLOCATION_FAILED, "no memory for pointers");
  for (uint32_t i = 0; i < d->external_count; i++)
    e->pointers[e->pointer_count++].id = d->externals[i].position;
  for (uint32_t i = 0; role == ECX_SHOWN_RUN && i < g->value_count; i++)
    if (ecx_is_shown(g, &g->values[i])) e->pointers[e->pointer_count++].id = ecx_shown_id(g, i);
  return EC_BACKEND_OK;
}

/* Deletes the runtime; the next call creates another. After a failure XNNPACK's operators and
 * memory are inconsistent. */
static void discard_runtime(ecx_engine *e) {
  if (e->runtime) xnn_delete_runtime(e->runtime);
  e->runtime = NULL;
  e->shapes = 0;
  e->is_set_up = false;
}

/* Returns the elements of the inputs; those of the bounds when the delegate is created. */
static size_t count_inputs(const ecx_delegate *d) {
  size_t total = 0, count;
  for (uint32_t i = 0; i < d->input_count; i++)
    if (ecx_shape_count(&value_of(d, i)->shape, &count) && count <= SIZE_MAX - total)
      total += count;
  return total;
}

uint32_t ecx_engine_build(const ecx_call *c, ecx_delegate *d, ecx_role role) {
  ecx_engine *e = &d->engines[role];
  bool alone = ecx_graph_is_small(&d->graph);
  ecx_plan plan = {.threads = alone ? NULL : c->host->threadpool(c->call),
                   .flags = role == ECX_TIMED_RUN ? XNN_FLAG_BASIC_PROFILING : 0,
                   .show_all = role == ECX_SHOWN_RUN};
  discard_runtime(e);
  e->planned = count_inputs(d);
  e->threads = plan.threads;
  e->elisions = d->graph.elisions;
  ECX_TRY(list_pointers(c, d, role));
  if (role != ECX_PLAIN_RUN && !e->workspace)
    ECX_TRY(ecx_workspace_create(c, &e->workspace));
  plan.workspace = e->workspace ? e->workspace : d->workspace->workspace;
  if (d->cache) plan.cache = ecx_cache_enter(c, d->cache);
  ecx_allocated();
  uint32_t status = ecx_build(c, &d->graph, &plan, &e->runtime);
  if (!d->cache && role == ECX_PLAIN_RUN) d->own_packed = ecx_allocated();
  if (d->cache) ecx_cache_leave(d->cache);
  return status;
}

void ecx_engine_close(const ec_host *host, ecx_delegate *d, ecx_role role) {
  ecx_engine *e = &d->engines[role];
  if (e->runtime && !d->workspace->is_lost) {
    ecx_workspace_lock(d->workspace);
    xnn_delete_runtime(e->runtime);
    ecx_workspace_leave(d->workspace);
  }
  if (e->workspace) xnn_release_workspace(e->workspace);
  if (e->pointers) host->free(e->pointers);
  *e = (ecx_engine){0};
}

/* ---- running --------------------------------------------------------------------------------- */

/* Checks that XNNPACK's output shapes match the memory. */
static uint32_t check_outputs(const ecx_call *c, const ecx_delegate *d, const ecx_engine *e) {
  for (uint32_t i = d->input_count; i < d->external_count; i++) {
    ecx_shape size = {0};
    size_t expected, count;
    enum xnn_status status = xnn_get_external_value_shape(e->runtime, e->pointers[i].id,
                                                          &size.rank, size.dims);
    if (status != xnn_status_success || !ecx_shape_count(&size, &count) ||
        !ecx_shape_count(&value_of(d, i)->shape, &expected) || count != expected)
      return ecx_fail(c, EC_BACKEND_INTERNAL,
                      "XNNPACK computes an output of another shape than expected for argument %u",
                      (unsigned)e->pointers[i].id);
  }
  return EC_BACKEND_OK;
}

/* An XNNPACK without the corrections of third_party runs new shapes in the memory of the
 * first ones. */
#ifdef EXECUTORCH_C_CORRECTIONS
enum { IS_RIGID = 0 };
#else
enum { IS_RIGID = 1 };
#endif

/* Returns the value that a runtime has for an argument. */
static const ecx_value *run_value(const ecx_delegate *d, ecx_role role, uint32_t external) {
  const uint32_t index = d->externals[external].value;
  return &d->graph.values[role == ECX_SHOWN_RUN ? index : d->graph.elided[index].same];
}

/* True if the runtime leaves out other nodes than it may for the current shapes. */
static bool is_outdated(const ecx_delegate *d, ecx_role role) {
  return role != ECX_SHOWN_RUN && d->engines[role].elisions != d->graph.elisions;
}

static uint32_t reshape_runtime(const ecx_call *c, ecx_delegate *d, ecx_role role) {
  ecx_engine *e = &d->engines[role];
  enum xnn_status status = xnn_status_success;
  if (!e->runtime || (e->shapes && (IS_RIGID || ecx_is_rigid(&d->graph))) || is_outdated(d, role))
    ECX_TRY(ecx_engine_build(c, d, role));
  e->is_set_up = false;
  e->shapes = 0;
  ecx_allocated();
  for (uint32_t i = 0; i < d->input_count && status == xnn_status_success; i++) {
    const ecx_shape *shape = &run_value(d, role, i)->shape;
    status = xnn_reshape_external_value(e->runtime, e->pointers[i].id, shape->rank, shape->dims);
  }
  if (status == xnn_status_success) status = xnn_reshape_runtime(e->runtime);
  size_t grown = ecx_allocated();
  if (grown && role == ECX_PLAIN_RUN) d->workspace->bytes = grown;
  if (status != xnn_status_success) return fail_runtime(c, d, "xnn_reshape_runtime", status);
  ECX_TRY(check_outputs(c, d, e));
  if (d->cache) ecx_cache_trim(d->cache); /* methods are loaded before they run */
  e->shapes = d->shapes;
  return EC_BACKEND_OK;
}

/* Prepares the runtime for the shapes and the memory of a call. */
static uint32_t set_up_runtime(const ecx_call *c, ecx_delegate *d, ecx_role role,
                               void *const *pointers) {
  ecx_engine *e = &d->engines[role];
  /* After a fork there are other threads: the runtime would wait for the old ones for ever. */
  if (e->threads && e->threads != c->host->threadpool(c->call))
    ECX_TRY(ecx_engine_build(c, d, role));
  if (e->shapes != d->shapes) ECX_TRY(reshape_runtime(c, d, role));
  for (uint32_t i = 0; i < e->pointer_count; i++) {
    if (e->pointers[i].data != pointers[i]) e->is_set_up = false;
    e->pointers[i].data = pointers[i];
  }
  if (e->is_set_up) return EC_BACKEND_OK;
  enum xnn_status status = xnn_setup_runtime_v2(e->runtime, e->pointer_count, e->pointers);
  if (status != xnn_status_success) return fail_runtime(c, d, "xnn_setup_runtime_v2", status);
  e->is_set_up = true;
  return EC_BACKEND_OK;
}

static uint32_t invoke_runtime(const ecx_call *c, ecx_delegate *d, const ecx_engine *e) {
  const bool is_settled = !d->cache || ecx_cache_is_settled(d->cache);
  const uint64_t start = is_settled ? 0 : ecx_now();
  if (d->cache) ecx_cache_use(d->cache, c);
  const enum xnn_status status = xnn_invoke_runtime(e->runtime);
  if (!is_settled) ecx_cache_settle(d->cache, ecx_now() - start);
  return status == xnn_status_success ? EC_BACKEND_OK
                                      : fail_runtime(c, d, "xnn_invoke_runtime", status);
}

static uint32_t run_runtime(const ecx_call *c, ecx_delegate *d, ecx_role role,
                            void *const *pointers) {
  ecx_engine *e = &d->engines[role];
  /* A workspace has room for the bounds of all values, of which a short prompt needs a part. */
  ecx_memory_set_sparse(e->shapes != d->shapes && count_inputs(d) < e->planned);
  const uint32_t prepared = set_up_runtime(c, d, role, pointers);
  ecx_memory_set_sparse(false);
  ECX_TRY(prepared);
  return invoke_runtime(c, d, e);
}

uint32_t ecx_engine_run(const ecx_call *c, ecx_delegate *d, ecx_role role, void *const *pointers) {
  if (d->engines[role].shapes != d->shapes) ECX_TRY(ecx_graph_check_empty(c, &d->graph));
  ECX_TRY(ecx_workspace_enter(c, d->workspace));
  uint32_t status = run_runtime(c, d, role, pointers);
  if (status) discard_runtime(&d->engines[role]);
  ecx_workspace_leave(d->workspace);
  return status;
}

uint32_t ecx_engine_repeat(const ecx_call *c, ecx_delegate *d) {
  ecx_engine *e = &d->engines[ECX_PLAIN_RUN];
  if (!e->runtime || e->shapes != d->shapes || !e->is_set_up ||
      (e->threads && e->threads != c->host->threadpool(c->call)))
    return EC_BACKEND_NOT_SUPPORTED;
  ECX_TRY(ecx_workspace_enter(c, d->workspace));
  const uint32_t status = invoke_runtime(c, d, e);
  if (status) discard_runtime(e);
  ecx_workspace_leave(d->workspace);
  return status;
}
