/* Datatypes of operands. */
#ifndef ECX_TYPES_H
#define ECX_TYPES_H

#include "graph.h"

/* Fails where the node's operands have datatypes that it does not take. */
uint32_t ecx_check_types(const ecx_call *c, const ecx_graph *g, const ecx_node *n);

/* The exporter calls indices of a pooling fp32: makes them, and what moves them, int32. */
void ecx_mark_indices(ecx_graph *g, const ecx_node *n);

#endif
