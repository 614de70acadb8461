/* Nodes in messages, and closing of a graph. */
#include "nodes/graph.h"

#include <stdarg.h>
#include <stdio.h>

#include "call.h"
#include "payload/values.h"

uint32_t ecx_fail_node(const ecx_call *c, const ecx_node *node, uint32_t status, const char *fmt,
                       ...) {
  char text[2 * ECX_TEXT];
  va_list args;
  va_start(args, fmt);
  vsnprintf(text, sizeof text, fmt, args);
  va_end(args);
  if (node->debug_handle == 0)
    return ecx_fail(c, status, "node %u (%s): %s", (unsigned)node->index, node->kind->name, text);
  return ecx_fail(c, status, "node %u (%s, debug handle %u): %s", (unsigned)node->index,
                  node->kind->name, (unsigned)node->debug_handle, text);
}

void ecx_graph_close(const ec_host *host, ecx_graph *g) {
  for (uint32_t i = 0; g->values && i < g->value_count; i++) ecx_value_close(host, &g->values[i]);
  if (g->values) host->free(g->values);
  if (g->nodes) host->free(g->nodes);
  if (g->elided) host->free(g->elided);
  if (g->inputs) host->free(g->inputs);
  if (g->outputs) host->free(g->outputs);
  if (g->lookups) host->free(g->lookups);
  *g = (ecx_graph){0};
}
