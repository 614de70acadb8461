/* Shapes of operands and results, one function for each name in the column `shape` of nodes.def: in
 * shapes_matrix.c, shapes_move.c and shapes_window.c. */
#ifndef ECX_NODES_SHAPES_H
#define ECX_NODES_SHAPES_H

#include "nodes/graph.h"

#define ECX_NODE(number, name, table, inputs, types, flags, shape, ...)                            \
  ecx_shape_fn ecx_shape_##shape;
#include "nodes/nodes.def"
#undef ECX_NODE

/* Refuses the shapes of a node's operands. */
#define REFUSE(c, n, ...) ecx_fail_node((c), (n), EC_BACKEND_INVALID_ARGUMENT, __VA_ARGS__)

/* Checks that a dynamically quantised value (any other passes) has quantisation parameters over its
 * last `nonbatch_dims` dimensions, as the node reads them. */
uint32_t ecx_check_per_token(const ecx_call *c, const ecx_node *n, const ecx_value *v,
                             uint32_t nonbatch_dims);

#endif
