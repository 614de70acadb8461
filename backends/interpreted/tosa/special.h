/* Operators that are not one row: other results for some dtypes, or arguments computed here. */
#ifndef ETS_SPECIAL_H
#define ETS_SPECIAL_H

#include "node.h"

ets_translate_fn ets_call_const, ets_call_argmax, ets_call_matmul, ets_call_clamp, ets_call_extreme,
    ets_call_reduce_extreme, ets_call_mul, ets_call_negate, ets_call_blocks, ets_call_pad,
    ets_call_slice, ets_call_resize, ets_call_cast;

/* Adds a call that computes the result in `dtype`, and its conversion. */
uint32_t ets_call_in(ect_graph *g, const ect_node *n, uint32_t dtype, const char *op,
                     const int64_t *args, size_t count);
/* The dtype in which operators of backends/operators/tosa take floats. */
uint32_t ets_computed_dtype(uint32_t dtype);
/* Finds the first input, converted to the dtype in which it is computed. */
uint32_t ets_first_computed(ect_graph *g, const ect_node *n, const ect_operand **x, int64_t *out);

#endif
