/* Claims: kernel calls that become a delegate at load. */
#ifndef ECX_CLAIM_RUN_H
#define ECX_CLAIM_RUN_H

#include "draft.h"

/* Implements can_claim of the backend. */
const char *ecx_claim_check(const ec_backend_kernel_call *call);
/* Adds the nodes of a run to a draft. */
uint32_t ecx_claim_draft(const ecx_call *c, const ec_backend_run *run, ecx_draft *draft);

#endif
