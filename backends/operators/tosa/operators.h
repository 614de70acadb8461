/* The functions of operators.def. */
#ifndef ETO_OPERATORS_H
#define ETO_OPERATORS_H

#include "call.h"

#define ETO_OP(function, schema) uint32_t function(const eto_call *c);
#include "operators.def"
#undef ETO_OP

#endif
