/* Conversions and outputs that a payload lacks. */
#ifndef ECX_NODES_CONVERT_H
#define ECX_NODES_CONVERT_H

#include "nodes/graph.h"

/* Marks the value that is the delegate's last output, if the payload does not say which, and adds
 * the conversions that its nodes need. `next_id` is greater than all ids of values. */
uint32_t ecx_add_conversions(const ecx_call *c, ecx_graph *g, uint32_t next_id);

/* Counts the results of nodes with one result that are neither read nor outputs, and sets `last` to
 * the last of them. */
uint32_t ecx_count_unused_results(const ecx_graph *g, uint32_t *last);

#endif
