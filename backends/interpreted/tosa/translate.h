/* Blocks of a graph as calls of a program. */
#ifndef ETS_TRANSLATE_H
#define ETS_TRANSLATE_H

#include "../delegate.h"
#include "graph.h"

/* Translates the first block and opens its program. */
uint32_t ets_translate(ets_graph *g, ect_delegate *out);

#endif
