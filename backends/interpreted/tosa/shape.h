/* Operators on shapes, whose results are known when the program is loaded. */
#ifndef ETS_SHAPE_H
#define ETS_SHAPE_H

#include "node.h"

ets_translate_fn ets_shape_const, ets_shape_dim, ets_shape_concat, ets_shape_binary,
    ets_shape_unary, ets_shape_slice, ets_shape_assert;

#endif
