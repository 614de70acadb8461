/* Calls whose values may be changed on the way. */
#ifndef ECX_RUN_STEP_H
#define ECX_RUN_STEP_H

#include "run/delegate.h"

/* Runs a node, in a runtime of its own. `values` is the memory of all values, by index. */
uint32_t ecx_step_run(const ecx_call *c, const ecx_delegate *d, const ecx_node *node,
                      void *const *values);

#endif
