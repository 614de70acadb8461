/* The cost of a delegate. */
#ifndef ECX_COST_H
#define ECX_COST_H

#include "graph.h"

/* True where its nodes are so small, on the whole, that one thread is done before a second one has
 * begun. */
bool ecx_graph_is_small(const ecx_graph *g);

#endif
