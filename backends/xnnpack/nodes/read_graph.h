/* Conversion of a verified payload to a checked graph. */
#ifndef ECX_NODES_READ_GRAPH_H
#define ECX_NODES_READ_GRAPH_H

#include "nodes/graph.h"
#include "payload/payload.h"

/* Fills `graph` (zeroed); call ecx_graph_close also after a failure. `payload` may be freed. */
uint32_t ecx_graph_open(const ecx_call *c, const ecx_payload *payload, ecx_graph *graph);

#endif
