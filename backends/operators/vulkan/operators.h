/* The functions of operators.def. */
#ifndef EVO_OPERATORS_H
#define EVO_OPERATORS_H

#include "call.h"

#define EVO_OP(function, schema) uint32_t function(const evo_call *c);
#include "operators.def"
#undef EVO_OP

#endif
