/* Control flow. */
#ifndef ECN_CONTROL_H
#define ECN_CONTROL_H

#include "graph.h"

/* Translates the node `index` of the graph that has been entered. */
typedef uint32_t ecn_translate_fn(ecn_graph *g, uint32_t index);

/* Translates a torch.cond: the nodes of both branches, each behind a jump. `what` names the node in
 * messages. Traces show the node itself, and nothing of its branches. */
uint32_t ecn_call_cond(ecn_graph *g, ec_fb_table node, const char *what,
                       const ec_backend_node *shown, ecn_translate_fn *translate);

#endif
