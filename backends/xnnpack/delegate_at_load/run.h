/* Runs of kernel calls that become a delegate at load. */
#ifndef ECX_DELEGATE_AT_LOAD_RUN_H
#define ECX_DELEGATE_AT_LOAD_RUN_H

#include "delegate_at_load/draft.h"

/* Returns NULL, or in a few words why a call cannot be delegated. */
const char *ecx_can_delegate(const ec_backend_kernel_call *call);
/* Adds the nodes of a run to a draft. */
uint32_t ecx_delegate_run(const ecx_call *c, const ec_backend_run *run, ecx_draft *draft);

#endif
