/* A model in which the engine's compiler has joined layers to regions, each a `Subgraph` with a
 * body, and the same model without regions. */
#ifndef ECO_REGIONS_H
#define ECO_REGIONS_H

#include "graph.h"

/* Reads the model of a known payload as eco_graph_open, with the layers of its regions in place of
 * them. A region with layers that only regions have, or whose edges do not fit, remains one layer,
 * and so do all others. */
uint32_t eco_regions_open(const ec_backend_call *c, const eco_blob *blob, eco_graph *out);

#endif
