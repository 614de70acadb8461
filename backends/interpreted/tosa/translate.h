/* Nodes as calls of a program. */
#ifndef ETS_TRANSLATE_H
#define ETS_TRANSLATE_H

#include "dtypes.h"

/* Functions of ect_format. */
uint32_t ets_translate(ect_graph *g, const ect_node *n);
void ets_name(const ect_graph *g, const ect_node *n, char *out, size_t size);

#endif
