/* The engine of all attention operators. */
#ifndef EC_KERNELS_LLM_ATTENTION_H
#define EC_KERNELS_LLM_ATTENTION_H

#include "kernels/llm/attention_types.h"

/* Computes an attention. Keys and values are read in blocks, with a running maximum and sum for
 * each row, so that memory does not grow with the number of keys. A row that sees no key is NaN, as
 * in eager. The caller has checked all sizes. */
ec_status ec_attention_run(ec_call *c, const ec_attention *a);

#endif
