/* XNNPACK runtimes of a delegate. */
#ifndef ECX_RUN_ENGINE_H
#define ECX_RUN_ENGINE_H

#include "run/delegate.h"

uint32_t ecx_engine_build(const ecx_call *c, ecx_delegate *d, ecx_role role);
/* Runs the graph for the current shapes; pointers[i] is the memory of external i. */
uint32_t ecx_engine_run(const ecx_call *c, ecx_delegate *d, ecx_role role, void *const *pointers);
void ecx_engine_close(const ec_host *host, ecx_delegate *d, ecx_role role);

/* Runs the plain runtime again as it was set up. Returns NOT_SUPPORTED if it is not any more. */
uint32_t ecx_engine_repeat(const ecx_call *c, ecx_delegate *d);

#endif
