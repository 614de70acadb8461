/* The functions of operators.def. */
#ifndef EMO_OPERATORS_H
#define EMO_OPERATORS_H

#include "call.h"

#define EMO_OP(function, schema) uint32_t function(const emo_call *c);
#include "operators.def"
#undef EMO_OP

#endif
