/* update_and_attend: keys and values of new positions enter the method's KV cache, then queries
 * attend to all positions so far. */
#include <inttypes.h>
#include <math.h>

#include "core/checked.h"
#include "core/simd.h"
#include "kernels/copy.h"
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

/* Keys or values as float32: head `h` of the batch begins at data + h * step. */
typedef struct history {
  const float *data;
  int64_t dim, step;
} history;

/* Reads `used` positions of every head: the cache's memory, or converted. */
static ec_status read_history(ec_call *c, const ec_kv_layer *layer, const char *data, int64_t dim,
                              int64_t used, history *out) {
  const ec_dtype dtype = c->kv_cache->config.dtype;
  const int64_t heads = layer->batch * layer->heads, item = (int64_t)ec_dtype_size(dtype);
  const int64_t step = c->kv_cache->config.capacity * dim;
  *out = (history){(const float *)(const void *)data, dim, step};
  if (dtype == EC_FLOAT32) return EC_OK;
  float *numbers;
  out->step = used * dim; /* no more than what the cache has: no overflow */
  EC_TRY(ec_call_scratch(c, (size_t)(heads * out->step), sizeof *numbers, &numbers));
  for (int64_t h = 0; h < heads; h++)
    ec_cast(EC_FLOAT32, dtype)(out->step, (char *)(numbers + h * out->step), sizeof *numbers,
                               data + h * step * item, item);
  out->data = numbers;
  return EC_OK;
}

typedef struct attend {
  const float *q;
  float *out;
  history k, v;
  int64_t queries, group; /* query heads for each head of keys */
  int64_t start, window;  /* 0: no window */
  float scale;
} attend;

EC_CLONES static float multiply(const float *restrict a, const float *restrict b, int64_t n) {
  enum { LANES = 8 };
  float sums[LANES] = {0}, sum = 0;
  int64_t i = 0;
  for (; i + LANES <= n; i += LANES)
    for (int64_t l = 0; l < LANES; l++) sums[l] += a[i + l] * b[i + l];
  for (; i < n; i++) sum += a[i] * b[i];
  for (int64_t l = 0; l < LANES; l++) sum += sums[l];
  return sum;
}

/* out = out * keep + x * weight */
EC_CLONES static void accumulate(float *restrict out, const float *restrict x, int64_t n,
                                 float keep, float weight) {
  for (int64_t i = 0; i < n; i++) out[i] = out[i] * keep + x[i] * weight;
}

/* Computes one query: a running maximum and sum over the positions that it sees. */
static void attend_row(const attend *a, int64_t row) {
  const int64_t head = row / a->queries / a->group, end = a->start + row % a->queries + 1;
  const int64_t first = a->window ? ec_max_i64(0, end - a->window) : 0;
  const float *q = a->q + row * a->k.dim;
  const float *keys = a->k.data + head * a->k.step, *values = a->v.data + head * a->v.step;
  float *out = a->out + row * a->v.dim, largest = -INFINITY, sum = 0;
  for (int64_t j = first; j < end; j++) {
    const float score = multiply(q, keys + j * a->k.dim, a->k.dim) * a->scale;
    const float top = score > largest ? score : largest;
    const float keep = largest == -INFINITY ? 0 : expf(largest - top);
    const float weight = score == -INFINITY ? 0 : expf(score - top);
    accumulate(out, values + j * a->v.dim, a->v.dim, keep, weight);
    sum = sum * keep + weight;
    largest = top;
  }
  for (int64_t i = 0; i < a->v.dim; i++) out[i] /= sum;
}

static void attend_rows(void *user, size_t first, size_t end) {
  for (size_t row = first; row < end; row++) attend_row(user, (int64_t)row);
}

/* Computes the result from the layer, which has the new positions; sizes are those of the out. */
static ec_status attend_layer(ec_call *c, const ec_kv_layer *layer, int64_t start) {
  const ec_tensor *q = ec_arg_tensor(c, Q);
  ec_tensor *out = ec_arg_tensor(c, OUT);
  const int64_t used = start + q->sizes[2], rows = q->sizes[0] * q->sizes[1] * q->sizes[2];
  attend a = {.queries = q->sizes[2], .group = q->sizes[1] / layer->heads, .start = start,
              .window = c->kv_cache->windows[ec_arg_int(c, LAYER)],
              .scale = (float)ec_arg_double(c, SCALE)};
  void *queries;
  EC_TRY(ec_call_packed(c, q, EC_FLOAT32, &queries));
  EC_TRY(read_history(c, layer, layer->keys, layer->dim, used, &a.k));
  EC_TRY(read_history(c, layer, layer->values, layer->v_dim, used, &a.v));
  EC_TRY(ec_call_scratch(c, (size_t)out->numel, sizeof *a.out, &a.out));
  a.q = queries;
  ec_parallel_for(c, (size_t)rows, 1, attend_rows, &a);
  ec_tensor result = *out;
  result.data = a.out;
  ec_view from = ec_view_of(&result), to = ec_view_of(out);
  from.dtype = EC_FLOAT32;
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
