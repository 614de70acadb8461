/* Calls that need more than one operator of the runtime, or none. */
#ifndef ECV_SPECIAL_H
#define ECV_SPECIAL_H

#include "graph.h"
#include "node.h"

typedef uint32_t (*ecv_special)(ecv_graph *g, const ecv_node *node);

uint32_t ecv_call_nothing(ecv_graph *g, const ecv_node *node);
uint32_t ecv_call_prepack(ecv_graph *g, const ecv_node *node);
uint32_t ecv_call_select_number(ecv_graph *g, const ecv_node *node);
uint32_t ecv_call_clamped_convolution(ecv_graph *g, const ecv_node *node);
uint32_t ecv_call_max_pool(ecv_graph *g, const ecv_node *node);

#endif
