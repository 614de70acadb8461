/* Nodes of an XNNPACK subgraph, one function for each name in the column `define` of nodes.def: in
 * nodes/define_matrix.c, nodes/define_simple.c and nodes/define_window.c. */
#ifndef ECX_NODES_DEFINE_H
#define ECX_NODES_DEFINE_H

#include "nodes/graph.h"

/* A subgraph under construction. */
struct ecx_builder {
  const ecx_call *c;
  const ecx_graph *graph;
  xnn_subgraph_t subgraph;
  uint32_t *ids; /* XNNPACK's ids of values */
};

#define ECX_NODE(number, name, table, inputs, types, flags, shape, define, ...)                    \
  ecx_define_fn ecx_define_##define;
#include "nodes/nodes.def"
#undef ECX_NODE

/* XNNPACK's ids of operands. */
static inline uint32_t ecx_in_id(const ecx_builder *b, const ecx_node *n, unsigned i) {
  return n->in[i] == ECX_NONE ? XNN_INVALID_VALUE_ID : b->ids[n->in[i]];
}
static inline uint32_t ecx_out_id(const ecx_builder *b, const ecx_node *n, unsigned i) {
  return b->ids[n->out[i]];
}

/* Sets the message of a failed XNNPACK call `what`, with the shapes of the node's operands. */
uint32_t ecx_node_status(const ecx_builder *b, const ecx_node *n, const char *what,
                         enum xnn_status status);
#define DONE(b, n, what, call) ecx_node_status((b), (n), (what), (call))

#endif
