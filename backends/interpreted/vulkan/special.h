/* Calls that need more than one operator of the runtime, or none. */
#ifndef ECV_SPECIAL_H
#define ECV_SPECIAL_H

#include "../graph.h"

typedef uint32_t ecv_special(ect_graph *g, const ect_node *n);

ecv_special ecv_call_nothing, ecv_call_prepack, ecv_call_select_number,
    ecv_call_clamped_convolution, ecv_call_clamped_sum, ecv_call_clamped_difference,
    ecv_call_clamped_product, ecv_call_clamped_quotient, ecv_call_max_pool,
    ecv_refuse_former;

/* Fails unless a call has that many values, its result included. */
uint32_t ecv_check_count(ect_graph *g, const ect_node *n, uint32_t wanted);
/* Finds all values of a call, as values of the program. */
uint32_t ecv_use_all(ect_graph *g, const ect_node *n, uint32_t count, int64_t *out);

#endif
