/* The calls of an attention, and their shapes: at load those of the bounds, in a call with dynamic
 * shapes those of the call. */
#ifndef EC_RUNTIME_PASSES_ATTEND_SHAPES_H
#define EC_RUNTIME_PASSES_ATTEND_SHAPES_H

#include "runtime/native.h"

enum { EC_SAFE_CALLS = 7 /* of a softmax that fuse.c fuses */ };

typedef enum ec_attention_role {
  EC_CHAIN_OTHER,
  EC_CHAIN_COPY,
  EC_CHAIN_SUM,
  EC_CHAIN_FACTOR,
  EC_CHAIN_DIVISOR,
  EC_CHAIN_SOFTMAX,
  EC_CHAIN_WHERE,
  EC_CHAIN_PRODUCT
} ec_attention_role;

/* Returns what a call can be in an attention, and the position of its `out` argument. */
ec_attention_role ec_attention_role_of(const ec_method *m, const ec_instr *in, size_t *out);

/* The parts of a chain of calls. */
struct ec_attention_parts {
  const ec_instr *first, *softmax, *last;
  const ec_instr *sum;        /* of the scores and the mask; NULL: no mask */
  ec_value *mask, *v;         /* as the chain reads them first */
  bool is_safe;               /* the softmax is fused with the calls after it */
  bool is_dynamic;
};

/* True for contiguous float32 elements that stay in one block of memory. */
bool ec_attention_is_plain(const ec_value *v);

/* True if a tensor broadcasts to another one's sizes. */
bool ec_attention_broadcasts(const ec_tensor *t, const ec_tensor *to);

/* True if the parts have shapes that the attention engine computes faster than the calls. Returns
 * the number of heads, by which the mask's sizes are read. */
bool ec_attention_has_shapes(const struct ec_attention_parts *parts, int64_t *heads);

/* Gives the results of a chain with dynamic shapes the sizes that its calls would. Returns true if
 * the engine may compute them: the shapes fit, and no call of the chain writes to an operand before
 * it is read. If it returns false, the calls have to run. */
bool ec_attention_fits(ec_method *m, const ec_step *step);

#endif
