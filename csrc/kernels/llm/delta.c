/* gated_delta_rule: linear attention with a state, a matrix (keys x values) for each head. At each
 * token the state decays, and moves the value that it has for the token's key towards the token's
 * value:
 *
 *   S = decay S;  S += k (beta (v - S^T k))^T;  out = S^T q
 *
 * The tokens are computed one after another; heads are independent. */
#include <string.h>

#include "core/checked.h"
#include "core/simd.h"
#include "kernels/copy.h"

enum { QUERY, KEY, VALUE, DECAY, BETA, STATE, OUT, FINAL, COUNT };
enum { RANK = 4, PIECE_PRODUCTS = 1 << 16 };

/* All tensors row-major. Query head h reads the state of head h / group. */
typedef struct delta {
  int64_t heads, group, tokens, keys, values; /* heads: of states, over the batch */
  bool by_key;                                /* a factor of decay for each key */
  float *data[COUNT];
  float *buffer; /* values for each head */
} delta;

/* Multiplies the state by the decay, and computes change = beta * (v - S^T k). */
EC_CLONES static void decay_state(const delta *d, float *restrict state, const float *k,
                                  const float *v, const float *decay, float beta,
                                  float *restrict change) {
  const int64_t n = d->values;
  for (int64_t j = 0; j < n; j++) change[j] = 0;
  for (int64_t i = 0; i < d->keys; i++, state += n) {
    const float factor = decay[d->by_key ? i : 0], key = k[i];
    for (int64_t j = 0; j < n; j++) {
      state[j] *= factor;
      change[j] += key * state[j];
    }
  }
  for (int64_t j = 0; j < n; j++) change[j] = beta * (v[j] - change[j]);
}

EC_CLONES static void change_state(const delta *d, float *restrict state, const float *k,
                                   const float *restrict change) {
  for (int64_t i = 0; i < d->keys; i++, state += d->values)
    for (int64_t j = 0; j < d->values; j++) state[j] += k[i] * change[j];
}

EC_CLONES static void read_state(const delta *d, const float *state, const float *q,
                                 float *restrict out) {
  for (int64_t j = 0; j < d->values; j++) out[j] = 0;
  for (int64_t i = 0; i < d->keys; i++, state += d->values)
    for (int64_t j = 0; j < d->values; j++) out[j] += q[i] * state[j];
}

static void run_heads(void *user, size_t begin, size_t end) {
  const delta *d = user;
  const int64_t decays = d->by_key ? d->keys : 1;
  for (int64_t h = (int64_t)begin; h < (int64_t)end; h++) {
    float *state = d->data[FINAL] + h * d->keys * d->values, *change = d->buffer + h * d->values;
    for (int64_t t = 0; t < d->tokens; t++) {
      const int64_t at = h * d->tokens + t;
      const float *k = d->data[KEY] + at * d->keys;
      decay_state(d, state, k, d->data[VALUE] + at * d->values, d->data[DECAY] + at * decays,
                  d->data[BETA][at], change);
      change_state(d, state, k, change);
      for (int64_t g = 0; g < d->group; g++) {
        const int64_t to = (h * d->group + g) * d->tokens + t;
        read_state(d, state, d->data[QUERY] + to * d->keys, d->data[OUT] + to * d->values);
      }
    }
  }
}

static ec_status check_sizes(ec_call *c, size_t i, size_t rank, const int64_t *sizes) {
  const ec_tensor *t = ec_arg_tensor(c, i);
  char actual[EC_SHAPE_TEXT], expected[EC_SHAPE_TEXT];
  if (t->rank == rank && ec_tensor_has_sizes(t, rank, sizes)) return EC_OK;
  return ec_call_fail(c, i, "shape %s, expected %s",
                      ec_shape_text(t->sizes, t->rank, actual, sizeof actual),
                      ec_shape_text(sizes, rank, expected, sizeof expected));
}

/* Checks shapes against those of key (batch, heads, tokens, keys) and value. */
static ec_status check_delta(ec_call *c, delta *d) {
  for (size_t i = 0; i < COUNT; i++) EC_TRY(ec_call_check_dtype(c, i, EC_BIT(EC_FLOAT32)));
  EC_TRY(ec_call_check_rank(c, QUERY, RANK, RANK));
  EC_TRY(ec_call_check_rank(c, KEY, RANK, RANK));
  EC_TRY(ec_call_check_rank(c, VALUE, RANK, RANK));
  const int64_t *k = ec_arg_tensor(c, KEY)->sizes, *q = ec_arg_tensor(c, QUERY)->sizes;
  const int64_t values = ec_arg_tensor(c, VALUE)->sizes[3];
  const int64_t query[] = {k[0], q[1], k[2], k[3]}, value[] = {k[0], k[1], k[2], values};
  const int64_t state[] = {k[0], k[1], k[3], values};
  if (k[1] < 1 || q[1] % k[1])
    return ec_call_fail(c, QUERY, "%lld heads, expected a multiple of the %lld of '%s'",
                        (long long)q[1], (long long)k[1], c->op->args[KEY].name);
  EC_TRY(check_sizes(c, QUERY, RANK, query));
  EC_TRY(check_sizes(c, VALUE, RANK, value));
  d->by_key = ec_arg_tensor(c, DECAY)->rank == RANK;
  EC_TRY(check_sizes(c, DECAY, d->by_key ? RANK : RANK - 1, k));
  EC_TRY(check_sizes(c, BETA, RANK - 1, k));
  EC_TRY(check_sizes(c, STATE, RANK, state));
  d->group = q[1] / k[1];
  d->tokens = k[2];
  d->keys = k[3];
  d->values = values;
  const int64_t out[] = {k[0], q[1], k[2], values};
  EC_TRY(ec_call_resize(c, OUT, RANK, out));
  return ec_call_resize(c, FINAL, RANK, state);
}

/* Returns the row-major elements of an output: its memory, or scratch to be copied. */
static ec_status start_output(ec_call *c, size_t i, delta *d) {
  const ec_tensor *t = ec_arg_tensor(c, i);
  d->data[i] = t->data;
  if (ec_tensor_is_contiguous(t)) return EC_OK;
  return ec_call_scratch(c, (size_t)t->numel, sizeof(float), &d->data[i]);
}

static void finish_output(ec_call *c, size_t i, const delta *d) {
  const ec_tensor *t = ec_arg_tensor(c, i);
  if (!t->numel || ec_tensor_is_contiguous(t)) return;
  ec_view to = ec_view_of(t), from = to;
  from.data = (char *)d->data[i];
  ec_strides(t->sizes, (const uint8_t[]){0, 1, 2, 3}, RANK, from.strides);
  ec_copy_view(c, &to, &from);
}

ec_status ec_op_gated_delta_rule_out(ec_call *c) {
  delta d = {0};
  EC_TRY(check_delta(c, &d));
  for (size_t i = QUERY; i <= STATE; i++) {
    void *data;
    EC_TRY(ec_call_packed(c, ec_arg_tensor(c, i), EC_FLOAT32, &data));
    d.data[i] = data;
  }
  const ec_tensor *final = ec_arg_tensor(c, FINAL), *k = ec_arg_tensor(c, KEY);
  EC_TRY(start_output(c, OUT, &d));
  EC_TRY(start_output(c, FINAL, &d));
  if (final->numel) memmove(d.data[FINAL], d.data[STATE], (size_t)final->numel * sizeof(float));
  const bool empty = !final->numel && !ec_arg_tensor(c, OUT)->numel;
  d.heads = empty ? 0 : k->sizes[0] * k->sizes[1];
  if (d.heads) {
    const double products = (double)d.tokens * (double)d.keys * (double)d.values;
    EC_TRY(ec_call_scratch(c, (size_t)d.heads, (size_t)d.values * sizeof(float), &d.buffer));
    ec_parallel_for(c, (size_t)d.heads, 1 + (size_t)(PIECE_PRODUCTS / (products + 1)), run_heads,
                    &d);
  }
  finish_output(c, OUT, &d);
  finish_output(c, FINAL, &d);
  return EC_OK;
}
