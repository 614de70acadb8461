/* update_and_attend: keys and values of new positions enter the method's KV cache, then queries
 * attend to all positions so far. */
#include <inttypes.h>

#include "kernels/copy.h"
#include "kernels/llm/attention.h"
#include "kernels/llm/kv_cache.h"

enum { Q, K, V, POSITION, LAYER, SCALE, OUT_DTYPE, OUT };
enum { RANK = 4 };

/* Checks that k or v has the batch and positions of q, and the heads of k. */
static ec_status check_new(ec_call *c, size_t i) {
  const ec_tensor *q = ec_arg_tensor(c, Q), *k = ec_arg_tensor(c, K), *t = ec_arg_tensor(c, i);
  char actual[EC_SHAPE_TEXT], shape[EC_SHAPE_TEXT];
  EC_TRY(ec_call_check_dtype(c, i, EC_SET_SINGLE));
  EC_TRY(ec_call_check_rank(c, i, RANK, RANK));
  const bool fits = t->sizes[0] == q->sizes[0] && t->sizes[2] == q->sizes[2] &&
                    (i == K ? t->sizes[3] == q->sizes[3] : t->sizes[1] == k->sizes[1]);
  if (fits && t->sizes[1] > 0 && q->sizes[1] % t->sizes[1] == 0) return EC_OK;
  return ec_call_fail(c, i, "shape %s does not fit that of '%s', %s: (batch, heads, positions, "
                      "numbers), a divisor of its heads%s",
                      ec_shape_text(t->sizes, RANK, actual, sizeof actual), c->op->args[Q].name,
                      ec_shape_text(q->sizes, RANK, shape, sizeof shape),
                      i == K ? "" : ", as many as in 'k'");
}

static ec_status check_arguments(ec_call *c) {
  const ec_tensor *position = ec_arg_tensor(c, POSITION);
  const int64_t dtype = ec_arg_int(c, OUT_DTYPE);
  EC_TRY(ec_call_check_dtype(c, Q, EC_SET_SINGLE));
  EC_TRY(ec_call_check_rank(c, Q, RANK, RANK));
  EC_TRY(check_new(c, K));
  EC_TRY(check_new(c, V));
  EC_TRY(ec_call_check_dtype(c, POSITION, EC_BIT(EC_INT32) | EC_BIT(EC_INT64)));
  EC_TRY(ec_call_check_rank(c, POSITION, 2, 2));
  EC_TRY(ec_call_check_dtype(c, OUT, EC_SET_SINGLE));
  if (position->sizes[0] != ec_arg_tensor(c, Q)->sizes[2] || position->sizes[1] < 1) {
    char text[EC_SHAPE_TEXT];
    return ec_call_fail(c, POSITION, "shape %s, expected (%" PRId64 ", 1 or more)",
                        ec_shape_text(position->sizes, 2, text, sizeof text),
                        ec_arg_tensor(c, Q)->sizes[2]);
  }
  if (dtype == (int64_t)ec_tensor_dtype(ec_arg_tensor(c, OUT))) return EC_OK;
  return ec_call_fail(c, OUT_DTYPE, "dtype %" PRId64 ", 'out' is %s", dtype,
                      ec_dtype_name(ec_tensor_dtype(ec_arg_tensor(c, OUT))));
}

/* Fails without a cache: says what one needs for this call. */
static ec_status fail_without_cache(ec_call *c) {
  const ec_tensor *k = ec_arg_tensor(c, K), *v = ec_arg_tensor(c, V);
  char keys[EC_SHAPE_TEXT], values[EC_SHAPE_TEXT];
  return ec_fail_hint(c->err, EC_INVALID_STATE, EC_HINT_KV_CACHE,
                      "needs a cache of keys and values, which is not in the file. Layer %" PRId64
                      " stores k %s and v %s of %s: n_kv_heads %" PRId64 ", head_dim %" PRId64
                      "; capacity (positions), dtype and windows are those of the runner for which "
                      "the program was exported",
                      ec_arg_int(c, LAYER), ec_shape_text(k->sizes, RANK, keys, sizeof keys),
                      ec_shape_text(v->sizes, RANK, values, sizeof values),
                      ec_dtype_name(ec_tensor_dtype(k)), k->sizes[1], k->sizes[3]);
}

/* Finds the first position: it continues the layer, or goes back. */
static ec_status find_start(ec_call *c, const ec_kv_layer *layer, int64_t *start) {
  const ec_tensor *position = ec_arg_tensor(c, POSITION);
  const int64_t capacity = c->kv_cache->config.capacity, layer_id = ec_arg_int(c, LAYER);
  const int64_t queries = position->sizes[0];
  *start = layer->used;
  if (!queries) return EC_OK;
  *start = ec_tensor_dtype(position) == EC_INT32 ? *(const int32_t *)position->data
                                                 : *(const int64_t *)position->data;
  if (*start < 0 || *start > layer->used)
    return ec_call_fail(c, POSITION, "starts at %" PRId64 ", expected 0 to %" PRId64
                        ": layer %" PRId64 " of the KV cache has that many positions", *start,
                        layer->used, layer_id);
  if (queries <= capacity - *start) return EC_OK;
  return ec_call_fail(c, POSITION, "%" PRId64 " positions from %" PRId64 " on exceed the capacity "
                      "of %" PRId64 " of layer %" PRId64 " of the KV cache", queries, *start,
                      capacity, layer_id);
}

/* Stores k or v in the cache's dtype from position `start` on. */
static void store(const ec_call *c, size_t i, char *data, int64_t start) {
  const ec_view from = ec_view_of(ec_arg_tensor(c, i));
  ec_view to = from;
  to.dtype = c->kv_cache->config.dtype;
  to.data = data + (size_t)(start * from.sizes[3]) * ec_dtype_size(to.dtype);
  to.strides[3] = 1;
  to.strides[2] = from.sizes[3];
  to.strides[1] = c->kv_cache->config.capacity * to.strides[2];
  to.strides[0] = from.sizes[1] * to.strides[1];
  if (ec_arg_tensor(c, i)->numel) ec_copy_view(c, &to, &from);
}

/* Describes the rows of a row-major (batch, heads, positions, numbers). */
static ec_rows make_rows(char *data, ec_dtype dtype, const int64_t sizes[RANK]) {
  return (ec_rows){.data = data, .dtype = dtype, .dim = sizes[3], .batch = sizes[1] * sizes[2],
                   .head = sizes[2], .seq = 1};
}

/* Computes the result from the layer, which has the new positions; sizes are those of the out. */
static ec_status attend_layer(ec_call *c, const ec_kv_layer *layer, int64_t start) {
  const ec_kv_config *config = &c->kv_cache->config;
  const ec_tensor *q = ec_arg_tensor(c, Q), *out = ec_arg_tensor(c, OUT);
  const int64_t keys[] = {layer->batch, layer->heads, config->capacity, layer->dim};
  const int64_t values[] = {layer->batch, layer->heads, config->capacity, layer->v_dim};
  ec_attention a = {.batches = layer->batch, .kv_heads = layer->heads,
                    .group = q->sizes[1] / layer->heads, .queries = q->sizes[2],
                    .keys = start + q->sizes[2], .dim = layer->dim, .causal = true, .start = start,
                    .window = c->kv_cache->windows[ec_arg_int(c, LAYER)],
                    .scale = (float)ec_arg_double(c, SCALE)};
  ec_view to = ec_view_of(out), from = to;
  void *queries;
  EC_TRY(ec_call_packed(c, q, ec_tensor_dtype(q), &queries));
  EC_TRY(ec_call_scratch(c, (size_t)out->numel, ec_dtype_size(to.dtype), &from.data));
  a.q = make_rows(queries, ec_tensor_dtype(q), q->sizes);
  a.k = make_rows(layer->keys, config->dtype, keys);
  a.v = make_rows(layer->values, config->dtype, values);
  a.out = make_rows(from.data, to.dtype, out->sizes);
  EC_TRY(ec_attention_run(c, &a));
  ec_strides(out->sizes, (const uint8_t[]){0, 1, 2, 3}, RANK, from.strides);
  ec_copy_view(c, &to, &from);
  return EC_OK;
}

/* Runs with the cache's lock. Nothing is stored if an argument is wrong. */
static ec_status update_and_attend(ec_call *c) {
  const ec_tensor *k = ec_arg_tensor(c, K), *v = ec_arg_tensor(c, V);
  const int64_t *s = k->sizes, sizes[RANK] = {s[0], ec_arg_tensor(c, Q)->sizes[1], s[2],
                                              v->sizes[3]};
  const ec_kv_layer wanted = {.batch = s[0], .heads = s[1], .dim = s[3], .v_dim = v->sizes[3]};
  ec_kv_layer *layer;
  int64_t start;
  EC_TRY(ec_kv_cache_open_layer(c->kv_cache, ec_arg_int(c, LAYER), &wanted, &layer, c->err));
  EC_TRY(find_start(c, layer, &start));
  EC_TRY(ec_call_resize(c, OUT, RANK, sizes));
  store(c, K, layer->keys, start);
  store(c, V, layer->values, start);
  layer->used = start + s[2];
  return ec_arg_tensor(c, OUT)->numel ? attend_layer(c, layer, start) : EC_OK;
}

ec_status ec_op_update_and_attend_out(ec_call *c) {
  EC_TRY(check_arguments(c));
  if (!c->kv_cache) return fail_without_cache(c);
  EC_TRY(ec_kv_cache_lock(c->kv_cache, c->err));
  const ec_status status = update_and_attend(c);
  ec_kv_cache_unlock(c->kv_cache);
  return status;
}
