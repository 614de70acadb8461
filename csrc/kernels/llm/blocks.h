/* Attention of blocks of rows, as in prefill: products with the micro-kernels of linalg/. */
#ifndef EC_KERNELS_LLM_BLOCKS_H
#define EC_KERNELS_LLM_BLOCKS_H

#include "kernels/linalg/micro.h"
#include "kernels/llm/attention_types.h"

/* Sizes of blocks; they depend on the attention and the machine, not on threads. */
typedef struct ec_blocks {
  const ec_attention *a;
  const ec_micro *micro;
  size_t panel; /* rows of a block are a multiple of it */
  int64_t keys; /* of one block */
  int64_t rows; /* of one block */
  int64_t dim;  /* the larger one of keys and values, rounded up to rows of the micro-kernel */
  size_t room;  /* floats of scratch memory for ec_blocks_run */
} ec_blocks;

/* Chooses sizes; false on overflow. */
bool ec_blocks_init(const ec_attention *a, ec_blocks *b);

/* Returns the number of blocks of rows of each head of keys. */
int64_t ec_blocks_count(const ec_blocks *b);

/* Computes blocks [begin, end), numbered over heads of keys and the batch. */
void ec_blocks_run(const ec_blocks *b, int64_t begin, int64_t end, float *scratch);

#endif
