/* Calls of the graph, translated to calls of the runtime's operators. */
#ifndef ECV_CALL_H
#define ECV_CALL_H

#include "../graph.h"

/* Finds prepacked constants, and constants that calls write: state. */
void ecv_find_state(ect_graph *g);

/* Functions of ect_format. */
uint32_t ecv_translate(ect_graph *g, const ect_node *n);
void ecv_name_node(const ect_graph *g, const ect_node *n, char *out, size_t size);

#endif
