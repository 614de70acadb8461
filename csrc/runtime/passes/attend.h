/* Chains of kernel calls that compute an attention, as one call of the attention engine. */
#ifndef EC_RUNTIME_PASSES_ATTEND_H
#define EC_RUNTIME_PASSES_ATTEND_H

#include "runtime/memory/uses.h"

/* Finds the chains, after ec_fuse_calls. Those with a fused softmax, which no backend claims, are
 * fused at once. */
ec_status ec_find_attention(ec_method *m, const ec_uses *uses, ec_error *err);

/* Fuses the others, after the claims, if no call of them is claimed. */
void ec_fuse_attention(const ec_method *m);

#endif
