/* The graph of a payload as text. */
#ifndef ECT_DESCRIBE_H
#define ECT_DESCRIBE_H

#include "executorch_c/backend.h"

/* A function of an ect_format: shows tensors, and the nodes that a trace reports. Nothing is
 * translated. */
uint32_t ect_graph_describe(void *graph, const ec_backend_visitor *visitor);

#endif
