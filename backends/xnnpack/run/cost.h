/* The cost of a delegate. */
#ifndef ECX_RUN_COST_H
#define ECX_RUN_COST_H

#include "nodes/graph.h"

/* Returns the number of multiplications of a graph that the runtime's kernels compute slower. */
double ecx_graph_gain(const ecx_graph *graph);

/* True if the nodes are so small, on average and each of them, that one thread finishes before a
 * second one starts. */
bool ecx_graph_is_small(const ecx_graph *g);

#endif
