/* The graph of a payload as text. */
#ifndef ECT_DESCRIBE_H
#define ECT_DESCRIBE_H

#include "graph.h"

/* Shows tensors, and the nodes that a trace reports. Nothing is translated. */
uint32_t ect_describe_graph(const ect_graph *g, const ec_backend_visitor *visitor);

#endif
