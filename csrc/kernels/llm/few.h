/* Attention of a few rows for each head, as in decoding: bound by reading keys and values. */
#ifndef EC_KERNELS_LLM_FEW_H
#define EC_KERNELS_LLM_FEW_H

#include "kernels/llm/attention_types.h"

enum { EC_FEW_ROWS = 16 /* maximum for each head of keys */ };

/* Returns the floats of scratch memory for ec_few_run; false on overflow. */
bool ec_few_room(const ec_attention *a, size_t *room);

/* Computes all rows of heads [begin, end), numbered over the batch. */
void ec_few_run(const ec_attention *a, int64_t begin, int64_t end, float *scratch);

#endif
