/* Arguments of the attention engine for a chain of calls. */
#include "kernels/llm/chain.h"

#include <string.h>

#include "kernels/llm/attention.h"

static ec_rows rows_of(const ec_tensor *t, int64_t heads, int64_t count, int64_t dim) {
  return (ec_rows){.data = t->data, .dtype = EC_FLOAT32, .dim = dim, .batch = heads * count,
                   .head = count, .seq = 1};
}

/* Returns the stride of a mask's dimension, counted from the last one. */
static int64_t stride_of(const ec_tensor *mask, size_t from_last) {
  if (from_last >= mask->rank) return 0;
  const size_t d = mask->rank - 1 - from_last;
  return mask->sizes[d] == 1 ? 0 : mask->strides[d];
}

static bool overlaps(const ec_tensor *t, const ec_tensor *out) {
  const uintptr_t a = (uintptr_t)t->data, b = (uintptr_t)out->data;
  return a < b + ec_tensor_nbytes(out) && b < a + ec_tensor_nbytes(t);
}

/* True if the output has memory of an operand. The calls of the chain would have read it before. */
static bool needs_staging(const ec_call *c) {
  for (size_t i = EC_CHAIN_Q; i <= EC_CHAIN_MASK; i++)
    if (!ec_arg_is_none(c, i) && overlaps(ec_arg_tensor(c, i), ec_arg_tensor(c, EC_CHAIN_OUT)))
      return true;
  return false;
}

static ec_status run_chain(ec_call *c) {
  const ec_tensor *q = ec_arg_tensor(c, EC_CHAIN_Q), *k = ec_arg_tensor(c, EC_CHAIN_K);
  const ec_tensor *mask = ec_arg_opt_tensor(c, EC_CHAIN_MASK);
  const ec_tensor *out = ec_arg_tensor(c, EC_CHAIN_OUT);
  const int64_t heads = ec_arg_int(c, EC_CHAIN_HEADS);
  ec_attention a = {.batches = q->sizes[0] / heads, .kv_heads = heads, .group = 1,
                    .queries = q->sizes[1], .keys = k->sizes[2], .dim = q->sizes[2],
                    .k_columns = true, .zero_rows = c->zero_rows};
  a.scale = (float)ec_arg_double(c, EC_CHAIN_SCALE);
  a.q = rows_of(q, heads, a.queries, a.dim);
  a.k = rows_of(k, heads, a.keys, a.dim);
  a.v = rows_of(ec_arg_tensor(c, EC_CHAIN_V), heads, a.keys, a.dim);
  a.out = rows_of(out, heads, a.queries, a.dim);
  if (mask) {
    a.mask = mask->data;
    a.mask_row = stride_of(mask, 1);
    a.mask_head = stride_of(mask, 2);
    a.mask_batch = stride_of(mask, 3);
  }
  void *staged = NULL;
  if (needs_staging(c)) {
    EC_TRY(ec_call_scratch(c, (size_t)out->numel, sizeof(float), &staged));
    a.out.data = staged;
  }
  EC_TRY(ec_attention_run(c, &a));
  if (staged) memcpy(out->data, staged, ec_tensor_nbytes(out));
  return EC_OK;
}

const ec_op ec_chain_op = {
    .name = "attention of several calls",
    .schema = "",
    .family = "llm",
    .origin = "builtin",
    .fn = run_chain,
    .nargs = EC_CHAIN_ARGS,
    .args = {[EC_CHAIN_Q] = {.name = "q"},
             [EC_CHAIN_K] = {.name = "k"},
             [EC_CHAIN_V] = {.name = "v"},
             [EC_CHAIN_MASK] = {.name = "mask", .optional = true},
             [EC_CHAIN_SCALE] = {.name = "scale", .type = EC_ARG_DOUBLE},
             [EC_CHAIN_HEADS] = {.name = "heads", .type = EC_ARG_INT},
             [EC_CHAIN_OUT] = {.name = "out", .written = true, .keyword = true, .is_out = true}},
};
