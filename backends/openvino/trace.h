/* Trace of one call: the engine's nodes with their times, the payload's layers with values. */
#ifndef ECO_TRACE_H
#define ECO_TRACE_H

#include "engine.h"

/* Reports what the call's trace wants. The delegate has run with these arguments. */
uint32_t eco_trace(const ec_backend_call *c, eco_delegate *d, ec_backend_arg *args);

#endif
