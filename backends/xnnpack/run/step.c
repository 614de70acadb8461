/* A node by itself: a runtime that reads and writes the memory of shown values. XNNPACK runs a
 * graph as a whole, so that a value cannot be changed between two nodes of one runtime. */
#include "run/step.h"

#include <stdio.h>

#include "call.h"
#include "nodes/graph.h"
#include "payload/values.h"
#include "run/build.h"
#include "run/workspace.h"
#include "status.h"

static bool is_computed_in(const ecx_graph *g, const ecx_node *only, const ecx_value *v) {
  return v->producer != ECX_NONE && ecx_is_in_step(g, only, &g->nodes[v->producer]);
}

/* Lists the externals of the step, and their memory. */
static struct xnn_external_value *list_externals(const ecx_call *c, const ecx_graph *g,
                                                 const ecx_node *node, void *const *values,
                                                 size_t *count) {
  struct xnn_external_value *out = c->host->scratch(c->call, g->value_count * sizeof *out + 1);
  *count = 0;
  for (uint32_t i = 0; out && i < g->value_count; i++) {
    const ecx_value *v = &g->values[i];
    const bool external = v->is_input || v->is_output;
    if (!external && !ecx_is_shown(g, v)) continue;
    if (!is_computed_in(g, node, v) && !ecx_step_reads(g, node, i)) continue;
    out[(*count)++] = (struct xnn_external_value){external ? v->external : ecx_shown_id(g, i),
                                                  values[i]};
  }
  return out;
}

static enum xnn_status invoke(xnn_runtime_t runtime, size_t count,
                              const struct xnn_external_value *externals) {
  enum xnn_status status = xnn_reshape_runtime(runtime);
  if (status == xnn_status_success) status = xnn_setup_runtime_v2(runtime, count, externals);
  return status == xnn_status_success ? xnn_invoke_runtime(runtime) : status;
}

static uint32_t run_node(const ecx_call *c, const ecx_delegate *d, const ecx_node *node,
                         void *const *values, xnn_workspace_t workspace) {
  const ecx_plan plan = {.workspace = workspace, .show_all = true, .only = node};
  xnn_runtime_t runtime = NULL;
  size_t count;
  const struct xnn_external_value *externals = list_externals(c, &d->graph, node, values, &count);
  if (!externals) return ecx_fail(c, EC_BACKEND_ALLOCATION_FAILED, "no memory for a step");
  const uint32_t status = ecx_build(c, &d->graph, &plan, &runtime);
  const enum xnn_status ran =
      status ? xnn_status_success : invoke(runtime, count, externals);
  if (runtime) xnn_delete_runtime(runtime);
  if (status) return status;
  return ran == xnn_status_success
             ? EC_BACKEND_OK
             : ecx_fail_node(c, node, ecx_status_code(ran), "XNNPACK cannot run it alone: '%s'",
                             ecx_status_name(ran));
}

uint32_t ecx_step_run(const ecx_call *c, const ecx_delegate *d, const ecx_node *node,
                      void *const *values) {
  xnn_workspace_t workspace = NULL;
  ECX_TRY(ecx_workspace_create(c, &workspace));
  const uint32_t status = run_node(c, d, node, values, workspace);
  xnn_release_workspace(workspace);
  return status;
}
