/* Control flow: nodes that have blocks. */
#ifndef ECT_CONTROL_H
#define ECT_CONTROL_H

#include "graph.h"

/* Translates a choice: both blocks, each behind a jump, with the operands of `count` links from
 * `first` on. Traces show the node itself, and nothing of its blocks. */
uint32_t ect_call_cond(ect_graph *g, const ect_node *n, int64_t condition, const uint32_t blocks[2],
                       uint32_t first, uint32_t count);
/* Translates a loop with the node's inputs: a block that computes its condition, and its body. */
uint32_t ect_call_while(ect_graph *g, const ect_node *n, const uint32_t blocks[2]);

#endif
