/* Shapes of a whole graph. */
#ifndef ECX_NODES_INFER_H
#define ECX_NODES_INFER_H

#include "nodes/graph.h"

/* Sets the shape of every computed value for the current shapes of the inputs. */
uint32_t ecx_graph_infer(const ecx_call *c, ecx_graph *graph);
/* Fails if XNNPACK cannot run the graph with some empty values and non-empty outputs. */
uint32_t ecx_graph_check_empty(const ecx_call *c, const ecx_graph *graph);

#endif
