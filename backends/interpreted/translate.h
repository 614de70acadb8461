/* A graph as calls of a program. */
#ifndef ECT_TRANSLATE_H
#define ECT_TRANSLATE_H

#include "graph.h"

/* Translates the graph's inputs, nodes and outputs. */
uint32_t ect_translate(ect_graph *g);

/* Translates the nodes of a block. Messages then name `n`, the node that has the block. */
uint32_t ect_translate_block(ect_graph *g, uint32_t block, const ect_node *n);
/* Fails unless an operand, and each item of a list, is computed, an input or constant. */
uint32_t ect_check_defined(ect_graph *g, uint32_t operand);
/* Returns the node for traces; NULL inside blocks of nodes. */
const ec_backend_node *ect_shown(const ect_graph *g, const ect_node *n, ec_backend_node *out);
/* Adds a call for the node under translation; `shown` NULL: a helper. */
uint32_t ect_call_op(ect_graph *g, const char *op, const int64_t *args, size_t count,
                  const int64_t *outs, size_t out_count, const ec_backend_node *shown);

#endif
