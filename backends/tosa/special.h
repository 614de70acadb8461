/* Operators that are not one row: other results for some dtypes, or arguments computed here. */
#ifndef ETS_SPECIAL_H
#define ETS_SPECIAL_H

#include "node.h"

ets_translate_fn ets_call_const, ets_call_argmax, ets_call_avg_pool, ets_call_max_pool,
    ets_call_matmul, ets_call_clamp, ets_call_extreme, ets_call_reduce_extreme, ets_call_mul,
    ets_call_negate, ets_call_cond_if, ets_call_pad, ets_call_slice, ets_call_resize, ets_call_cast;

#endif
