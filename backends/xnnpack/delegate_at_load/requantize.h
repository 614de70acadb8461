/* Nodes of integers. */
#ifndef ECX_DELEGATE_AT_LOAD_REQUANTIZE_H
#define ECX_DELEGATE_AT_LOAD_REQUANTIZE_H

#include "delegate_at_load/delegation.h"

/* Returns the id of floats as integers: by a node that computes them of integers, if there is one,
 * else by a conversion. */
uint32_t ecx_quantize(ecx_delegation *b, uint32_t id, const ecx_coding *coding);

#endif
