/* Calls of the graph, translated to calls of the runtime's operators. */
#ifndef ECV_CALL_H
#define ECV_CALL_H

#include "graph.h"
#include "node.h"

/* Finds prepacked constants, and the values that calls write. Before any value is translated. */
uint32_t ecv_find_state(ecv_graph *g);
/* False for prepacked constants and assertions, which the program does not call. */
bool ecv_is_run(const ecv_graph *g, const ecv_node *node);
uint32_t ecv_translate_call(ecv_graph *g, const ecv_node *node);

#endif
