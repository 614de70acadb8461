/* Nodes of integers. */
#ifndef ECX_CLAIM_REQUANTIZE_H
#define ECX_CLAIM_REQUANTIZE_H

#include "claim.h"

/* Returns the id of floats as integers: by a node that computes them of integers, if there is one,
 * else by a conversion. */
uint32_t ecx_quantize(ecx_claim *b, uint32_t id, const ecx_coding *coding);

#endif
