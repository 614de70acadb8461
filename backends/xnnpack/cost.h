/* The cost of a delegate. */
#ifndef ECX_COST_H
#define ECX_COST_H

#include "graph.h"

/* True if the nodes are on average so small that one thread finishes before a second one starts. */
bool ecx_graph_is_small(const ecx_graph *g);

#endif
