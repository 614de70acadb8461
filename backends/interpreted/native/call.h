/* Nodes of the graph, translated to calls of the runtime's operators. */
#ifndef ECN_CALL_H
#define ECN_CALL_H

#include "graph.h"

/* Translates node `index`; nothing for inputs and outputs of the graph. */
uint32_t ecn_translate_node(ecn_graph *g, uint32_t index);

#endif
