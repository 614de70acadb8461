/* Calls that need more than one operator of the runtime, or none. */
#ifndef ECV_SPECIAL_H
#define ECV_SPECIAL_H

#include "graph.h"
#include "node.h"

typedef uint32_t ecv_special(ecv_graph *g, const ecv_node *node);

ecv_special ecv_call_nothing, ecv_call_prepack, ecv_call_select_number,
    ecv_call_clamped_convolution, ecv_call_max_pool;

#endif
