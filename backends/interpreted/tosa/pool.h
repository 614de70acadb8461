/* Pooling: ATen's for floats where it is the same, of backends/operators/tosa otherwise. */
#ifndef ETS_POOL_H
#define ETS_POOL_H

#include "node.h"

ets_translate_fn ets_call_avg_pool, ets_call_max_pool;

#endif
