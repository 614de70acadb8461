/* Shapes of a whole graph. */
#ifndef ECX_INFER_H
#define ECX_INFER_H

#include "graph.h"

/* Gives every computed value its shape for the present shapes of the inputs. */
uint32_t ecx_graph_infer(const ecx_call *c, ecx_graph *graph);
/* Whether XNNPACK can run it where some values are empty and some outputs are not. */
uint32_t ecx_graph_check_empty(const ecx_call *c, const ecx_graph *graph);

#endif
