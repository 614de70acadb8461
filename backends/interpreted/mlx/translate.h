/* Nodes as calls. */
#ifndef EMX_TRANSLATE_H
#define EMX_TRANSLATE_H

#include "../graph.h"

/* A function of ect_format. */
uint32_t emx_translate(ect_graph *g, const ect_node *n);

#endif
