/* The functions of operators.def, and their table. */
#ifndef EVO_OPERATORS_H
#define EVO_OPERATORS_H

#include "call.h"

#define EVO_OP(function, schema) uint32_t function(const evo_call *c);
#include "operators.def"
#undef EVO_OP

extern const ec_operators evo_operators;

#endif
