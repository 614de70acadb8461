/* The attention that a chain of calls of a program computes: runtime/passes/attend.h finds them. */
#ifndef EC_KERNELS_LLM_CHAIN_H
#define EC_KERNELS_LLM_CHAIN_H

#include "kernels/call.h"

/* Arguments. */
enum {
  EC_CHAIN_Q,     /* (n, rows, dim), n: batches x heads */
  EC_CHAIN_K,     /* (n, dim, keys): transposed */
  EC_CHAIN_V,     /* n x keys x dim elements */
  EC_CHAIN_MASK,  /* broadcasts to (batches, heads, rows, keys), without a broadcast of keys; or
                     None */
  EC_CHAIN_SCALE, /* of the products */
  EC_CHAIN_HEADS,
  EC_CHAIN_OUT,   /* (n, rows, dim) */
  EC_CHAIN_ARGS
};

/* The operator of such a call, in no program. All tensors are contiguous float32, and the caller
 * has checked their shapes. ec_call.zero_rows: rows that see no key are zeros. */
extern const ec_op ec_chain_op;

#endif
