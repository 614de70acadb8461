/* Blocks of a graph as calls of a program. */
#ifndef ETS_TRANSLATE_H
#define ETS_TRANSLATE_H

#include "graph.h"

/* Translates the first block of an ets_graph. */
uint32_t ets_translate(void *graph);

#endif
