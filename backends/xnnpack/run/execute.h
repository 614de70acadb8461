/* One call of a delegate. */
#ifndef ECX_RUN_EXECUTE_H
#define ECX_RUN_EXECUTE_H

#include "run/delegate.h"

uint32_t ecx_execute(const ecx_call *c, ecx_delegate *d, ec_backend_arg *args, size_t count);

/* Runs the delegate again with the arguments of the last call, at the same addresses. Returns
 * NOT_SUPPORTED if that has to be executed. */
uint32_t ecx_repeat(const ecx_call *c, ecx_delegate *d);

#endif
