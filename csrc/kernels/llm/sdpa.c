/* custom_sdpa, sdpa_with_kv_cache and custom_quantized_sdpa: arguments of the attention engine. */
#include <inttypes.h>
#include <math.h>

#include "kernels/copy.h"
#include "kernels/llm/attention.h"
#include "kernels/llm/cache.h"

enum { RANK = 4 };

/* Positions of arguments. `head` and `seq` are dimensions of q, k and v. */
typedef struct sdpa_args {
  size_t q, k, v, start, mask, causal, scale, out;
  size_t head, seq;
  bool quantized; /* zero points and scales of q, k and v follow `scale` */
} sdpa_args;

static const sdpa_args custom = {0, 1, 2, 3, 4, 6, 7, 8, 2, 1, false};
static const sdpa_args with_cache = {0, 3, 4, 5, 7, 9, 10, 11, 2, 1, false};

/* Checks that k or v fits q. */
static ec_status check_heads(ec_call *c, const sdpa_args *p, size_t i) {
  const ec_tensor *q = ec_arg_tensor(c, p->q), *t = ec_arg_tensor(c, i);
  char actual[EC_SHAPE_TEXT], shape[EC_SHAPE_TEXT];
  EC_TRY(ec_call_check_same_dtype(c, i, p->q));
  EC_TRY(ec_call_check_rank(c, i, RANK, RANK));
  const int64_t heads = t->sizes[p->head];
  if (t->sizes[0] != q->sizes[0] || t->sizes[3] != q->sizes[3])
    return ec_call_fail(c, i, "shape %s, expected the first and last dimension of '%s', %s",
                        ec_shape_text(t->sizes, RANK, actual, sizeof actual),
                        c->op->args[p->q].name,
                        ec_shape_text(q->sizes, RANK, shape, sizeof shape));
  if (heads < 1 || q->sizes[p->head] % heads)
    return ec_call_fail(c, i, "shape %s has %" PRId64 " heads, expected a divisor of the %" PRId64
                        " of '%s'", ec_shape_text(t->sizes, RANK, actual, sizeof actual), heads,
                        q->sizes[p->head], c->op->args[p->q].name);
  if (i == p->v && !ec_tensor_same_sizes(t, ec_arg_tensor(c, p->k)))
    return ec_call_fail(c, i, "shape %s, expected that of '%s', %s",
                        ec_shape_text(t->sizes, RANK, actual, sizeof actual),
                        c->op->args[p->k].name,
                        ec_shape_text(ec_arg_tensor(c, p->k)->sizes, RANK, shape, sizeof shape));
  return EC_OK;
}

/* Returns the mask; NULL without one, or if it has no elements. */
static const ec_tensor *find_mask(const ec_call *c, const sdpa_args *p) {
  const ec_tensor *mask = ec_arg_opt_tensor(c, p->mask);
  return mask && mask->numel ? mask : NULL;
}

/* Checks the mask, or the number of keys without one. */
static ec_status check_keys(ec_call *c, const sdpa_args *p) {
  const int64_t keys = ec_arg_tensor(c, p->k)->sizes[p->seq], start = ec_arg_int(c, p->start);
  const int64_t queries = ec_arg_tensor(c, p->q)->sizes[p->seq], sizes[] = {queries, keys};
  const ec_tensor *mask = find_mask(c, p);
  char actual[EC_SHAPE_TEXT], expected[EC_SHAPE_TEXT];
  if (mask) {
    EC_TRY(ec_call_check_dtype(c, p->mask, EC_BIT(EC_FLOAT32)));
    EC_TRY(ec_call_check_rank(c, p->mask, 2, 2));
    if (ec_arg_bool(c, p->causal))
      return ec_call_fail(c, p->causal, "true, expected false with a mask");
    if (ec_tensor_has_sizes(mask, 2, sizes)) return EC_OK;
    return ec_call_fail(c, p->mask, "shape %s, expected %s: queries by keys",
                        ec_shape_text(mask->sizes, 2, actual, sizeof actual),
                        ec_shape_text(sizes, 2, expected, sizeof expected));
  }
  if (start >= 0 && start <= keys && queries <= keys - start) return EC_OK;
  return ec_call_fail(c, p->start, "%" PRId64 " with %" PRId64 " queries, expected at most %" PRId64
                      " keys of '%s' and no negative start",
                      start, queries, keys, c->op->args[p->k].name);
}

static ec_status check_sdpa(ec_call *c, const sdpa_args *p) {
  const ec_dtype_set set = p->quantized ? EC_BIT(EC_INT8) : EC_SET_SINGLE;
  EC_TRY(ec_call_check_dtype(c, p->q, set));
  EC_TRY(ec_call_check_rank(c, p->q, RANK, RANK));
  EC_TRY(check_heads(c, p, p->k));
  EC_TRY(check_heads(c, p, p->v));
  if (p->quantized) EC_TRY(ec_call_check_dtype(c, p->out, EC_BIT(EC_FLOAT32)));
  else EC_TRY(ec_call_check_same_dtype(c, p->out, p->q));
  return check_keys(c, p);
}

/* Describes the rows of a tensor; `data` has its elements, row-major. */
static ec_rows make_rows(const sdpa_args *p, const ec_tensor *t, ec_dtype dtype, void *data) {
  int64_t steps[RANK] = {0, 0, 1, 0}; /* of rows */
  steps[1] = t->sizes[2];
  steps[0] = t->sizes[1] * t->sizes[2];
  return (ec_rows){.data = data, .dtype = dtype, .dim = t->sizes[3], .batch = steps[0],
                   .head = steps[p->head], .seq = steps[p->seq]};
}

/* Reads the zero point and the scale of each row from arguments `i` and i + 1. */
static ec_status read_parameters(ec_call *c, const ec_tensor *t, size_t i, ec_rows *rows) {
  int64_t sizes[RANK] = {t->sizes[0], t->sizes[1], t->sizes[2], 1};
  const ec_dtype dtypes[] = {EC_INT8, EC_FLOAT32};
  void *data[2];
  for (size_t k = 0; k < 2; k++) {
    char actual[EC_SHAPE_TEXT], expected[EC_SHAPE_TEXT];
    const ec_tensor *parameter = ec_arg_opt_tensor(c, i + k);
    if (!parameter) return ec_call_fail(c, i + k, "None, expected a tensor for int8 arguments");
    EC_TRY(ec_call_check_dtype(c, i + k, EC_BIT(dtypes[k])));
    if (parameter->rank != RANK || !ec_tensor_has_sizes(parameter, RANK, sizes))
      return ec_call_fail(c, i + k, "shape %s, expected %s: one number for each row",
                          ec_shape_text(parameter->sizes, parameter->rank, actual, sizeof actual),
                          ec_shape_text(sizes, RANK, expected, sizeof expected));
    EC_TRY(ec_call_packed(c, parameter, dtypes[k], &data[k]));
  }
  rows->zeros = data[0];
  rows->scales = data[1];
  return EC_OK;
}

/* Reads a tensor of rows; all elements row-major, in its dtype. */
static ec_status read_rows(ec_call *c, const sdpa_args *p, size_t i, ec_rows *rows) {
  const ec_tensor *t = ec_arg_tensor(c, i);
  const size_t which = i == p->q ? 0 : i == p->k ? 1 : 2;
  void *data;
  EC_TRY(ec_call_packed(c, t, ec_tensor_dtype(t), &data));
  *rows = make_rows(p, t, ec_tensor_dtype(t), data);
  return p->quantized ? read_parameters(c, t, p->scale + 1 + 2 * which, rows) : EC_OK;
}

/* Computes checked arguments. */
static ec_status run_sdpa(ec_call *c, const sdpa_args *p) {
  const ec_tensor *q = ec_arg_tensor(c, p->q), *k = ec_arg_tensor(c, p->k);
  const ec_tensor *mask = find_mask(c, p);
  ec_tensor *out = ec_arg_tensor(c, p->out);
  ec_attention a = {.batches = q->sizes[0], .kv_heads = k->sizes[p->head],
                    .queries = q->sizes[p->seq], .dim = q->sizes[3]};
  a.group = q->sizes[p->head] / a.kv_heads;
  a.start = ec_arg_int(c, p->start);
  a.causal = ec_arg_bool(c, p->causal);
  a.keys = mask ? k->sizes[p->seq] : a.start + a.queries;
  EC_TRY(read_rows(c, p, p->q, &a.q));
  EC_TRY(read_rows(c, p, p->k, &a.k));
  EC_TRY(read_rows(c, p, p->v, &a.v));
  EC_TRY(ec_call_resize(c, p->out, RANK, q->sizes));
  if (!out->numel) return EC_OK;
  a.scale = (float)ec_arg_opt_double(c, p->scale, 1 / sqrt((double)a.dim));
  void *numbers = NULL;
  if (mask) EC_TRY(ec_call_packed(c, mask, EC_FLOAT32, &numbers));
  a.mask = numbers;
  a.mask_row = a.keys;
  ec_view to = ec_view_of(out), from = to;
  const bool direct = ec_tensor_is_contiguous(out);
  const size_t item = ec_dtype_size(to.dtype);
  if (!direct) EC_TRY(ec_call_scratch(c, (size_t)out->numel, item, &from.data));
  a.out = make_rows(p, q, to.dtype, from.data);
  EC_TRY(ec_attention_run(c, &a));
  if (direct) return EC_OK;
  ec_strides(q->sizes, (const uint8_t[]){0, 1, 2, 3}, RANK, from.strides);
  ec_copy_view(c, &to, &from);
  return EC_OK;
}

ec_status ec_op_custom_sdpa_out(ec_call *c) {
  EC_TRY(check_sdpa(c, &custom));
  return run_sdpa(c, &custom);
}

ec_status ec_op_custom_quantized_sdpa_out(ec_call *c) {
  const bool heads_first = ec_arg_bool(c, 14);
  sdpa_args p = custom;
  p.out = 15;
  p.quantized = ec_tensor_dtype(ec_arg_tensor(c, p.q)) == EC_INT8;
  if (p.quantized && heads_first) {
    p.head = 1;
    p.seq = 2;
  }
  EC_TRY(check_sdpa(c, &p));
  return run_sdpa(c, &p);
}

/* Updates both caches, then attends to them. Nothing is written if an argument is wrong. */
ec_status ec_op_sdpa_with_kv_cache_out(ec_call *c) {
  enum { KEY = 1, VALUE, KEY_CACHE, VALUE_CACHE, START, SEQ_LEN };
  const int64_t length = ec_arg_int(c, SEQ_LEN), start = ec_arg_int(c, START);
  for (size_t i = KEY; i <= VALUE; i++) {
    const size_t cache = i == KEY ? KEY_CACHE : VALUE_CACHE;
    EC_TRY(ec_cache_check(c, i, cache));
    EC_TRY(ec_call_check_same_dtype(c, i, cache));
    EC_TRY(ec_cache_check_start(c, START, cache, ec_arg_tensor(c, i)->sizes[1]));
    const int64_t room = ec_arg_tensor(c, cache)->sizes[1] - start;
    if (length < 0 || length > room)
      return ec_call_fail(c, SEQ_LEN, "%" PRId64 ", expected [0, %" PRId64 "]: what '%s' has from "
                          "%" PRId64 " on", length, room, c->op->args[cache].name, start);
  }
  EC_TRY(check_sdpa(c, &with_cache));
  ec_cache_write(c, ec_arg_tensor(c, KEY), ec_arg_tensor(c, KEY_CACHE), start);
  ec_cache_write(c, ec_arg_tensor(c, VALUE), ec_arg_tensor(c, VALUE_CACHE), start);
  return run_sdpa(c, &with_cache);
}
