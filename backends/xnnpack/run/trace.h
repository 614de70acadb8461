/* Traced calls. */
#ifndef ECX_RUN_TRACE_H
#define ECX_RUN_TRACE_H

#include "run/delegate.h"

/* Runs the graph like ecx_engine_run, and reports the data requested by the call's trace. */
uint32_t ecx_trace_run(const ecx_call *c, ecx_delegate *d, uint32_t wants, void *const *pointers);

void ecx_shown_close(const ec_host *host, ecx_delegate *d);

#endif
