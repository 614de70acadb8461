/* The cost of a delegate. */
#ifndef ECX_COST_H
#define ECX_COST_H

#include "graph.h"

/* True if the nodes are on average so small that one thread finishes before a second one starts. */
/* Returns the number of multiplications of a graph. */
double ecx_graph_cost(const ecx_graph *graph);

bool ecx_graph_is_small(const ecx_graph *g);

#endif
