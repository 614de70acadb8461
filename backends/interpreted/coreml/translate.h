/* Operations of the MIL program as calls. */
#ifndef ECM_TRANSLATE_H
#define ECM_TRANSLATE_H

#include "../graph.h"

/* Functions of ect_format. */
uint32_t ecm_translate(ect_graph *g, const ect_node *node);
void ecm_name_node(const ect_graph *g, const ect_node *n, char *out, size_t size);

#endif
