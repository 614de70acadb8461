/* Chains of float nodes between integers of 8 bits, each computed by one table of 256 results. */
#ifndef ECX_RUN_LOOKUP_H
#define ECX_RUN_LOOKUP_H

#include "nodes/graph.h"

/* Finds the chains of a graph and computes their tables: `lookup`, `lookup_from` and `is_joined` of
 * its nodes. */
uint32_t ecx_find_lookups(const ecx_call *c, ecx_graph *g);
/* Defines the table of a node in place of its chain. */
uint32_t ecx_define_lookup(ecx_builder *b, const ecx_node *n);
/* Returns the number of tables. */
uint32_t ecx_count_lookups(const ecx_graph *g);

#endif
