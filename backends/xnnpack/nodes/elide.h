/* Moves that XNNPACK need not run. */
#ifndef ECX_NODES_ELIDE_H
#define ECX_NODES_ELIDE_H

#include "nodes/graph.h"

/* The place of a value in runtimes that do not show all values. */
struct ecx_elision {
  uint32_t same; /* the value in its place: with the same elements in the same memory */
  uint32_t stands_for; /* the delegate's argument that it is, of another shape; or ECX_NONE */
  uint32_t uses;       /* number of nodes that read it */
  uint32_t wide;       /* bit d: dimension d is, or was in an earlier call, not 1 */
};

/* Finds the nodes to leave out for the current shapes, and counts a change in g->elisions. */
uint32_t ecx_elide(const ecx_call *c, ecx_graph *g);

/* True if such a runtime has the node: it is neither dead, nor elided, nor part of a table. */
bool ecx_is_run(const ecx_graph *g, const ecx_node *n);

#endif
