/* Convolutions: of the runtime for floats, of backends/operators/tosa for integers. */
#ifndef ETS_CONV_H
#define ETS_CONV_H

#include "node.h"

ets_translate_fn ets_call_conv, ets_call_transpose_conv;

#endif
