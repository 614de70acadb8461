/* Datatypes of operands. */
#ifndef ECX_NODES_TYPES_H
#define ECX_NODES_TYPES_H

#include "nodes/graph.h"

/* Fails if the node does not support the datatypes of its operands. */
uint32_t ecx_check_types(const ecx_call *c, const ecx_graph *g, const ecx_node *n);

/* Converts a float16 filter and bias to float32, and a filter of 4 bits to int8, where XNNPACK
 * takes only that. */
uint32_t ecx_widen_weights(const ecx_call *c, ecx_graph *g, const ecx_node *n);

/* Marks the indices of a pooling, and values moved from them, as int32: the exporter writes
 * fp32. */
void ecx_mark_indices(ecx_graph *g, const ecx_node *n);

#endif
