/* One call of a delegate. */
#ifndef ECO_EXECUTE_H
#define ECO_EXECUTE_H

#include "engine.h"

/* Runs the model: args are its inputs, then its outputs. */
uint32_t eco_execute(const ec_backend_call *c, eco_delegate *d, ec_backend_arg *args, size_t count);

#endif
