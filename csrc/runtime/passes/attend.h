/* Chains of kernel calls that compute an attention, as one call of the attention engine. */
#ifndef EC_RUNTIME_PASSES_ATTEND_H
#define EC_RUNTIME_PASSES_ATTEND_H

#include "runtime/passes/pass.h"

/* Finds the chains. Those with a fused softmax, or dynamic shapes, which no backend takes, get
 * their step at once. */
ec_status ec_find_attention(ec_pass_context *p, ec_error *err);

/* Adds the steps of the others if no backend has a call of them. */
ec_status ec_add_attention(ec_pass_context *p, ec_error *err);

#endif
