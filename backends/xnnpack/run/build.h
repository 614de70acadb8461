/* Conversion of a checked graph to an XNNPACK runtime. */
#ifndef ECX_RUN_BUILD_H
#define ECX_RUN_BUILD_H

#include "nodes/graph.h"

/* Settings of a runtime. */
typedef struct ecx_plan {
  xnn_weights_cache_t cache; /* or NULL */
  xnn_workspace_t workspace;
  pthreadpool_t threads; /* or NULL */
  uint32_t flags;        /* of xnn_create_runtime_v4 */
  bool show_all;         /* every computed value becomes an output: see ecx_shown_id */
  const ecx_node *only;  /* with show_all: the node of ecx_is_in_step; NULL: all nodes */
} ecx_plan;

/* Creates a runtime of the graph with its current shapes. */
uint32_t ecx_build(const ecx_call *c, const ecx_graph *g, const ecx_plan *plan, xnn_runtime_t *out);

/* Returns the id of value `index` in a runtime that shows all values. */
static inline uint32_t ecx_shown_id(const ecx_graph *g, uint32_t index) {
  return g->extern_count + index;
}

/* True if the shown run keeps the value. */
static inline bool ecx_is_shown(const ecx_graph *g, const ecx_value *v) {
  return v->producer != ECX_NONE && !g->nodes[v->producer].is_dead && !v->is_output &&
         v->scheme != ECX_PER_TOKEN;
}

/* True if the runtime of a single node has node `n`: itself, or the dynamic quantisation of its
 * input, whose result nothing shows. */
bool ecx_is_in_step(const ecx_graph *g, const ecx_node *only, const ecx_node *n);

/* True if a node of the step reads the value. */
bool ecx_step_reads(const ecx_graph *g, const ecx_node *only, uint32_t index);

#endif
