/* quantized_moe_ffn: a router chooses some experts for each token; an expert is two products with
 * packed weights, with silu(a) * b between. Experts run one after another, for all of their tokens
 * together; a product is split by rows of its weights, so results do not depend on threads. */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "core/checked.h"
#include "core/simd.h"
#include "kernels/copy.h"
#include "kernels/llm/packed.h"

enum { X, GATE, BIAS, W13, W2, ACTIVE, EXPERTS, HIDDEN, DIM, GROUP, BITS, SCORE, ROUTE, OUT };
enum { LANES = 16, PIECE_PRODUCTS = 1 << 16, PIECES = 4, UNIVERSAL = 1, MAGIC = 6712 };

typedef struct moe {
  int64_t tokens, experts, active, dim, hidden, group;
  int bits;
  bool sigmoid;
  float route;
  const float *x, *gate, *bias; /* bias: NULL without one */
  int64_t *chosen;              /* tokens x active experts */
  float *weights;               /* the same, in the output */
  float *rows, *both, *results; /* of one expert: its tokens x dim, 2 * hidden, dim */
  float *sums;                  /* tokens x dim */
  float *buffer;                /* EC_PACKED_ROWS rows of weights for each piece of a product */
} moe;

/* One product: out = rows times the transposed matrix. */
typedef struct product {
  const ec_packed *w;
  const float *rows;
  int64_t count, pieces;
  float *out, *buffer; /* EC_PACKED_ROWS x cols for each piece */
} product;

EC_CLONES static float multiply_row(const float *a, const float *b, int64_t n) {
  float lane[LANES] = {0}, sum = 0;
  int64_t i = 0;
  for (; i + LANES <= n; i += LANES)
    for (int64_t l = 0; l < LANES; l++) lane[l] += a[i + l] * b[i + l];
  for (int64_t l = 0; i < n; i++, l++) lane[l] += a[i] * b[i];
  for (int64_t l = 0; l < LANES; l++) sum += lane[l];
  return sum;
}

static void run_pieces(void *user, size_t begin, size_t end) {
  const product *p = user;
  const int64_t blocks = (p->w->rows + EC_PACKED_ROWS - 1) / EC_PACKED_ROWS, k = p->w->cols;
  for (size_t i = begin; i < end; i++) {
    float *w = p->buffer + (int64_t)i * EC_PACKED_ROWS * k;
    const int64_t last = ec_share(blocks, (int64_t)i + 1, p->pieces);
    for (int64_t b = ec_share(blocks, (int64_t)i, p->pieces); b < last; b++) {
      const int64_t row = b * EC_PACKED_ROWS, n = ec_min_i64(EC_PACKED_ROWS, p->w->rows - row);
      ec_packed_read(p->w, row, w);
      for (int64_t t = 0; t < p->count; t++)
        for (int64_t r = 0; r < n; r++)
          p->out[t * p->w->rows + row + r] = multiply_row(p->rows + t * k, w + r * k, k);
    }
  }
}

static int64_t most_pieces(const ec_call *c) {
  const int64_t threads = c->threads ? (int64_t)ec_threads_count(c->threads) : 1;
  return threads == 1 ? 1 : threads * PIECES;
}

static void multiply_packed(const ec_call *c, const moe *m, const ec_packed *w, const float *rows,
                            int64_t count, float *out) {
  const int64_t blocks = (w->rows + EC_PACKED_ROWS - 1) / EC_PACKED_ROWS;
  const double enough = (double)w->rows * (double)w->cols * (double)count / PIECE_PRODUCTS;
  product p = {w, rows, count, ec_min_i64(most_pieces(c), blocks), out, m->buffer};
  if (enough < (double)p.pieces) p.pieces = ec_max_i64(1, (int64_t)enough);
  ec_parallel_for(c, (size_t)p.pieces, 1, run_pieces, &p);
}

static float find_sigmoid(float x) {
  const float e = expf(-fabsf(x));
  return x >= 0 ? 1 / (1 + e) : e / (1 + e);
}

/* Chooses the experts with the largest scores, the first of equal ones. NaN comes last. */
static void choose_experts(const moe *m, const float *scores, bool *taken, int64_t *chosen) {
  memset(taken, 0, (size_t)m->experts * sizeof *taken);
  for (int64_t k = 0; k < m->active; k++) {
    int64_t best = -1, left = -1;
    for (int64_t e = m->experts; e--;) {
      if (taken[e]) continue;
      left = e;
      if (!isnan(scores[e]) && (best < 0 || scores[e] >= scores[best])) best = e;
    }
    chosen[k] = best < 0 ? left : best;
    taken[chosen[k]] = true;
  }
}

/* Computes the weights of a token's chosen experts from their scores. */
static void weigh_experts(const moe *m, float *weights) {
  float largest = weights[0], total = 0;
  for (int64_t k = 1; k < m->active; k++) largest = weights[k] > largest ? weights[k] : largest;
  for (int64_t k = 0; k < m->active; k++) {
    if (!m->sigmoid) weights[k] = expf(weights[k] - largest);
    total += weights[k];
  }
  const float tiny = 0x1p-126f;
  const float scale = m->sigmoid ? m->route / (total < tiny ? tiny : total) : 1 / total;
  for (int64_t k = 0; k < m->active; k++) weights[k] *= scale;
}

static ec_status route_tokens(ec_call *c, moe *m) {
  float *scores, *biased;
  bool *taken;
  EC_TRY(ec_call_scratch(c, (size_t)m->experts, sizeof *scores, &scores));
  EC_TRY(ec_call_scratch(c, (size_t)m->experts, sizeof *biased, &biased));
  EC_TRY(ec_call_scratch(c, (size_t)m->experts, sizeof *taken, &taken));
  for (int64_t t = 0; t < m->tokens; t++) {
    int64_t *chosen = m->chosen + t * m->active;
    float *weights = m->weights + t * m->active;
    for (int64_t e = 0; e < m->experts; e++) {
      scores[e] = multiply_row(m->x + t * m->dim, m->gate + e * m->dim, m->dim);
      if (m->sigmoid) scores[e] = find_sigmoid(scores[e]);
      biased[e] = scores[e] + (m->bias ? m->bias[e] : 0);
    }
    choose_experts(m, biased, taken, chosen);
    for (int64_t k = 0; k < m->active; k++) weights[k] = scores[chosen[k]];
    weigh_experts(m, weights);
  }
  return EC_OK;
}

/* Replaces rows of (a, b) by adjacent rows of silu(a) * b. */
static void activate_rows(float *both, int64_t rows, int64_t n) {
  for (int64_t r = 0; r < rows; r++)
    for (int64_t i = 0; i < n; i++) {
      const float a = both[2 * r * n + i], b = both[(2 * r + 1) * n + i];
      both[r * n + i] = a * find_sigmoid(a) * b;
    }
}

static void run_expert(const ec_call *c, const moe *m, int64_t e, const ec_packed *w13,
                       const ec_packed *w2) {
  const size_t row = (size_t)m->dim * sizeof(float);
  int64_t count = 0;
  for (int64_t i = 0; i < m->tokens * m->active; i++)
    if (m->chosen[i] == e)
      memcpy(m->rows + count++ * m->dim, m->x + i / m->active * m->dim, row);
  if (!count) return;
  multiply_packed(c, m, w13, m->rows, count, m->both);
  activate_rows(m->both, count, m->hidden);
  multiply_packed(c, m, w2, m->both, count, m->results);
  const float *from = m->results;
  for (int64_t i = 0; i < m->tokens * m->active; i++) {
    if (m->chosen[i] != e) continue;
    float *to = m->sums + i / m->active * m->dim;
    for (int64_t d = 0; d < m->dim; d++) to[d] += m->weights[i] * from[d];
    from += m->dim;
  }
}

static ec_status check_positive(ec_call *c, size_t i) {
  const int64_t n = ec_arg_int(c, i);
  return n > 0 ? EC_OK : ec_call_fail(c, i, "%" PRId64 ", expected 1 or more", n);
}

static ec_status check_shape(ec_call *c, size_t i, ec_dtype dtype, size_t rank, int64_t first,
                             int64_t second) {
  const ec_tensor *t = ec_arg_tensor(c, i);
  const int64_t sizes[] = {first < 0 ? t->sizes[0] : first, second < 0 ? t->sizes[1] : second};
  char actual[EC_SHAPE_TEXT], expected[EC_SHAPE_TEXT];
  EC_TRY(ec_call_check_dtype(c, i, EC_BIT(dtype)));
  EC_TRY(ec_call_check_rank(c, i, rank, rank));
  if (ec_tensor_has_sizes(t, rank, sizes)) return EC_OK;
  return ec_call_fail(c, i, "shape %s, expected %s",
                      ec_shape_text(t->sizes, rank, actual, sizeof actual),
                      ec_shape_text(sizes, rank, expected, sizeof expected));
}

/* Checks numbers and shapes, and reads the numbers. */
static ec_status check_moe(ec_call *c, moe *m) {
  const char *score = ec_arg_string(c, SCORE);
  for (size_t i = ACTIVE; i <= GROUP; i++) EC_TRY(check_positive(c, i));
  *m = (moe){.experts = ec_arg_int(c, EXPERTS), .active = ec_arg_int(c, ACTIVE),
             .dim = ec_arg_int(c, DIM), .hidden = ec_arg_int(c, HIDDEN),
             .group = ec_arg_int(c, GROUP), .route = (float)ec_arg_double(c, ROUTE)};
  const int64_t bits = ec_arg_int(c, BITS);
  m->bits = bits == 4 ? 4 : 8;
  if (bits != m->bits) return ec_call_fail(c, BITS, "%" PRId64 ", expected 4 or 8", bits);
  m->sigmoid = strcmp(score, "sigmoid") == 0;
  if (!m->sigmoid && strcmp(score, "softmax") != 0)
    return ec_call_fail(c, SCORE, "'%.40s', expected 'sigmoid' or 'softmax'", score);
  if (m->active > m->experts)
    return ec_call_fail(c, ACTIVE, "%" PRId64 ", expected at most %" PRId64 ", the experts",
                        m->active, m->experts);
  if (m->group % EC_PACKED_STEP || m->dim % m->group || m->hidden % m->group)
    return ec_call_fail(c, GROUP, "%" PRId64 ", expected a multiple of %d that divides %" PRId64
                        " and %" PRId64, m->group, EC_PACKED_STEP, m->dim, m->hidden);
  EC_TRY(check_shape(c, X, EC_FLOAT32, 2, -1, m->dim));
  EC_TRY(check_shape(c, GATE, EC_FLOAT32, 2, m->experts, m->dim));
  EC_TRY(ec_call_check_dtype(c, OUT, EC_BIT(EC_FLOAT32)));
  if (!ec_arg_tensor(c, BIAS)->numel) return EC_OK;
  if (!m->sigmoid) return ec_call_fail(c, BIAS, "elements, expected none with 'softmax'");
  return check_shape(c, BIAS, EC_FLOAT32, 1, m->experts, 0);
}

/* Checks packed weights of rows x cols for each expert. A header is checked if there is one. */
static ec_status start_weights(ec_call *c, size_t i, const moe *m, int64_t rows, int64_t cols,
                               ec_packed *w, int64_t *stride) {
  void *data;
  EC_TRY(check_shape(c, i, EC_UINT8, 2, m->experts, -1));
  const ec_tensor *t = ec_arg_tensor(c, i);
  int64_t size = 0;
  *stride = t->sizes[1];
  *w = (ec_packed){NULL, rows, cols, m->group, m->bits};
  if (rows < 1 || !ec_packed_size(w, &size) || size > *stride)
    return ec_call_fail(c, i, "%" PRId64 " bytes for each expert, expected at least those of "
                        "%" PRId64 " x %" PRId64 " numbers", *stride, rows, cols);
  EC_TRY(ec_call_packed(c, t, EC_UINT8, &data));
  w->data = data;
  int32_t header[2];
  memcpy(header, data, sizeof header);
  if (header[0] == MAGIC && header[1] != UNIVERSAL)
    return ec_call_fail(c, i, "packed in torchao's layout %d, expected %d", header[1], UNIVERSAL);
  return EC_OK;
}

static ec_status start_moe(ec_call *c, moe *m) {
  const size_t inputs[] = {X, GATE, BIAS};
  const float **to[] = {&m->x, &m->gate, &m->bias};
  for (size_t i = 0; i < sizeof inputs / sizeof *inputs; i++) {
    void *data;
    EC_TRY(ec_call_packed(c, ec_arg_tensor(c, inputs[i]), EC_FLOAT32, &data));
    *to[i] = data;
  }
  if (!ec_arg_tensor(c, BIAS)->numel) m->bias = NULL;
  const size_t tokens = (size_t)m->tokens, active = (size_t)m->active;
  const size_t row = (size_t)m->dim * sizeof(float);
  EC_TRY(ec_call_scratch(c, tokens, active * sizeof *m->chosen, &m->chosen));
  EC_TRY(ec_call_scratch(c, tokens, active * sizeof *m->weights, &m->weights));
  EC_TRY(ec_call_scratch(c, tokens, row, &m->rows));
  EC_TRY(ec_call_scratch(c, tokens, (size_t)m->hidden * 2 * sizeof(float), &m->both));
  EC_TRY(ec_call_scratch(c, tokens, row, &m->results));
  EC_TRY(ec_call_scratch(c, (size_t)ec_max_i64(m->dim, m->hidden),
                         (size_t)most_pieces(c) * EC_PACKED_ROWS * sizeof(float), &m->buffer));
  return ec_call_scratch(c, tokens, row, &m->sums);
}

ec_status ec_op_quantized_moe_ffn_out(ec_call *c) {
  moe m;
  ec_packed w13, w2;
  int64_t stride13, stride2, both;
  EC_TRY(check_moe(c, &m));
  if (!ec_mul_i64(m.hidden, 2, &both)) return ec_call_fail(c, HIDDEN, "%" PRId64, m.hidden);
  EC_TRY(start_weights(c, W13, &m, both, m.dim, &w13, &stride13));
  EC_TRY(start_weights(c, W2, &m, m.dim, m.hidden, &w2, &stride2));
  m.tokens = ec_arg_tensor(c, X)->sizes[0];
  const int64_t sizes[] = {m.tokens, m.dim};
  EC_TRY(ec_call_resize(c, OUT, 2, sizes));
  if (!m.tokens) return EC_OK;
  EC_TRY(start_moe(c, &m));
  EC_TRY(route_tokens(c, &m));
  const uint8_t *data13 = w13.data, *data2 = w2.data;
  for (int64_t e = 0; e < m.experts; e++) {
    w13.data = data13 + e * stride13 + EC_PACKED_HEADER;
    w2.data = data2 + e * stride2 + EC_PACKED_HEADER;
    run_expert(c, &m, e, &w13, &w2);
  }
  const ec_view to = ec_view_of(ec_arg_tensor(c, OUT));
  ec_view from = to;
  from.data = (char *)m.sums;
  from.strides[0] = m.dim;
  from.strides[1] = 1;
  ec_copy_view(c, &to, &from);
  return EC_OK;
}
