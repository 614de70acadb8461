/* Nodes of the graph, translated to calls of the runtime's operators. */
#ifndef ECN_CALL_H
#define ECN_CALL_H

#include "../graph.h"

/* True for torch's names of in-place operators, "torch.ops.aten.relu_.default". */
bool ecn_is_in_place(ect_text target);

/* Functions of ect_format. */
uint32_t ecn_translate(ect_graph *g, const ect_node *n);
void ecn_name_node(const ect_graph *g, const ect_node *n, char *out, size_t size);

#endif
