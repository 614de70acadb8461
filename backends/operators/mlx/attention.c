/* Normalisation, rotation and attention. */
#include <float.h>
#include <math.h>

#include "operators.h"

/* ---- normalisation --------------------------------------------------------------------------- */

typedef struct norm {
  const ec_backend_tensor *x, *weight, *bias, *out;
  int64_t width;
  double eps;
  bool is_centred;
} norm;

static void normalise(void *user, size_t begin, size_t end) {
  const norm *n = user;
  for (int64_t row = (int64_t)begin; row < (int64_t)end; row++) {
    const int64_t first = row * n->width;
    double mean = 0, sum = 0;
    for (int64_t i = 0; i < n->width && n->is_centred; i++) mean += emo_load(n->x, first + i);
    mean /= (double)n->width;
    for (int64_t i = 0; i < n->width; i++) {
      const double x = emo_load(n->x, first + i) - mean;
      sum += x * x;
    }
    const double inverse = 1.0 / sqrt(sum / (double)n->width + n->eps);
    for (int64_t i = 0; i < n->width; i++) {
      double y = (emo_load(n->x, first + i) - mean) * inverse;
      if (n->weight) y *= emo_load(n->weight, n->weight->rank ? i : 0);
      if (n->bias) y += emo_load(n->bias, n->bias->rank ? i : 0);
      emo_store_at(n->out, first + i, y);
    }
  }
}

/* Checks that a weight or bias is a number, or has one element for each of the last axis. */
static uint32_t check_weight(const emo_call *c, const ec_backend_tensor *t, const char *name,
                             int64_t width) {
  return t ? EC_ARG_COUNT(c, t, name, t->rank ? width : 1) : EC_BACKEND_OK;
}

uint32_t emo_norm(const emo_call *c) {
  norm n = {.eps = c->args[3].as.d, .is_centred = c->args[4].as.b};
  EC_BACKEND_TRY(emo_floats(c, 0, "x", &n.x));
  EC_BACKEND_TRY(emo_optional(c, 1, "weight", &n.weight));
  EC_BACKEND_TRY(emo_optional(c, 2, "bias", &n.bias));
  if (n.x->rank < 1) return EC_ARG_FAIL(c, "'x' has no dimensions");
  n.width = n.x->sizes[n.x->rank - 1];
  EC_BACKEND_TRY(check_weight(c, n.weight, "weight", n.width));
  EC_BACKEND_TRY(check_weight(c, n.bias, "bias", n.width));
  EC_BACKEND_TRY(emo_output(c, 5, n.x->rank, n.x->sizes, NULL, &n.out));
  EC_ARG_PARALLEL(c, emo_product(n.x->sizes, 0, n.x->rank - 1u), (double)n.width, normalise, &n);
  return EC_BACKEND_OK;
}

/* ---- rotation -------------------------------------------------------------------------------- */

typedef struct rotation {
  const ec_backend_tensor *x, *freqs, *offsets, *out;
  int64_t offset, dims, width, time, batch_rows; /* batch_rows: of an item of the batch */
  bool is_traditional;
  double base, scale;
} rotation;

/* Rotates a row of the last axis: pairs of its first elements. */
static void rotate_row(const rotation *r, int64_t row) {
  const int64_t first = row * r->width, half = r->dims / 2;
  const int64_t batch = r->batch_rows ? row / r->batch_rows : 0;
  const double start = r->offsets
                           ? emo_load(r->offsets, ec_arg_count(r->offsets) > 1 ? batch : 0)
                           : (double)r->offset;
  const double position = (start + (double)(row % r->time)) * r->scale;
  for (int64_t i = 0; i < half; i++) {
    const double power = 2.0 * (double)i / (double)r->dims;
    const double angle =
        position / (r->freqs ? emo_load(r->freqs, i) : pow(r->base, power));
    const int64_t a = first + (r->is_traditional ? 2 * i : i);
    const int64_t b = r->is_traditional ? a + 1 : a + half;
    const double x = emo_load(r->x, a), y = emo_load(r->x, b);
    emo_store_at(r->out, a, x * cos(angle) - y * sin(angle));
    emo_store_at(r->out, b, x * sin(angle) + y * cos(angle));
  }
  for (int64_t i = first + 2 * half; i < first + r->width; i++)
    emo_store_at(r->out, i, emo_load(r->x, i));
}

static void rotate(void *user, size_t begin, size_t end) {
  for (int64_t row = (int64_t)begin; row < (int64_t)end; row++) rotate_row(user, row);
}

uint32_t emo_rope(const emo_call *c) {
  rotation r = {.offset = c->args[3].as.i, .dims = c->args[4].as.i,
                .is_traditional = c->args[5].as.b, .base = c->args[6].as.d,
                .scale = c->args[7].as.d};
  EC_BACKEND_TRY(emo_floats(c, 0, "x", &r.x));
  EC_BACKEND_TRY(emo_optional(c, 1, "freqs", &r.freqs));
  EC_BACKEND_TRY(emo_optional(c, 2, "offset", &r.offsets));
  if (r.x->rank < 2) return EC_ARG_FAIL(c, "'x' has fewer than two dimensions");
  r.width = r.x->sizes[r.x->rank - 1];
  r.time = r.x->sizes[r.x->rank - 2];
  if (r.dims < 0 || r.dims % 2 || r.dims > r.width)
    return EC_ARG_FAIL(c, "%lld rotated dimensions of %lld", (long long)r.dims,
                       (long long)r.width);
  const int64_t batch = r.x->rank > 2 ? r.x->sizes[0] : 1;
  if (r.freqs) EC_BACKEND_TRY(EC_ARG_COUNT(c, r.freqs, "freqs", r.dims / 2));
  if (r.offsets && ec_arg_count(r.offsets) != 1)
    EC_BACKEND_TRY(EC_ARG_COUNT(c, r.offsets, "offset", batch));
  EC_BACKEND_TRY(emo_output(c, 8, r.x->rank, r.x->sizes, NULL, &r.out));
  const int64_t rows = emo_product(r.x->sizes, 0, r.x->rank - 1u);
  r.batch_rows = batch ? rows / batch : 0;
  EC_ARG_PARALLEL(c, rows, (double)r.width * 16, rotate, &r);
  return EC_BACKEND_OK;
}

/* ---- attention ------------------------------------------------------------------------------- */

typedef struct attention {
  const ec_backend_tensor *q, *k, *v, *mask, *out;
  int64_t heads, groups, queries, keys, width, value_width; /* groups: heads of q for one of k */
  double scale;
  bool is_causal;
  int64_t first;  /* row of the batch that runs */
  double *scores; /* `keys` for each row of the batch */
} attention;

/* Returns what a mask adds to a score. A hidden key has the least float32, as in MLX: a query that
 * sees no key has the mean of all, not NaN. */
static double mask_at(const attention *a, int64_t row, int64_t key) {
  const int64_t all[] = {a->q->sizes[0], a->heads, a->queries, a->keys};
  if (a->is_causal && key > row % a->queries + a->keys - a->queries) return -FLT_MAX;
  if (!a->mask) return 0;
  const int64_t at = emo_place(a->mask->sizes, a->mask->rank, all, 4, row * a->keys + key);
  if (a->mask->dtype == EC_DTYPE_BOOL) return emo_load_int(a->mask, at) ? 0 : -(double)FLT_MAX;
  return emo_load(a->mask, at);
}

static void attend_row(const attention *a, int64_t row) {
  const int64_t head = row / a->queries, batch = head / a->heads;
  const int64_t kept = batch * (a->heads / a->groups) + head % a->heads / a->groups;
  double *scores = a->scores + (row - a->first) * a->keys, most = -INFINITY, sum = 0;
  for (int64_t j = 0; j < a->keys; j++) {
    const int64_t k = (kept * a->keys + j) * a->width;
    double dot = 0;
    for (int64_t d = 0; d < a->width; d++)
      dot += emo_load(a->q, row * a->width + d) * emo_load(a->k, k + d);
    scores[j] = dot * a->scale + mask_at(a, row, j);
    if (!(scores[j] <= most)) most = scores[j];
  }
  for (int64_t j = 0; j < a->keys; j++) sum += scores[j] = exp(scores[j] - most);
  for (int64_t d = 0; d < a->value_width; d++) {
    double dot = 0;
    for (int64_t j = 0; j < a->keys; j++)
      dot += scores[j] * emo_load(a->v, (kept * a->keys + j) * a->value_width + d);
    emo_store_at(a->out, row * a->value_width + d, dot / sum);
  }
}

static void attend(void *user, size_t begin, size_t end) {
  const attention *a = user;
  for (size_t row = begin; row < end; row++) attend_row(a, a->first + (int64_t)row);
}

/* Runs the rows in batches: the scores of all may not fit into memory. */
static uint32_t attend_all(const emo_call *c, attention *a, int64_t rows) {
  enum { MAX_SCORES = 1 << 20 };
  const int64_t fitting = MAX_SCORES / (a->keys + 1) + 1, batch = fitting < rows ? fitting : rows;
  EC_BACKEND_TRY(EC_ARG_SCRATCH(c, batch * a->keys, sizeof *a->scores, &a->scores));
  for (a->first = 0; a->first < rows; a->first += batch) {
    const int64_t count = rows - a->first < batch ? rows - a->first : batch;
    EC_ARG_PARALLEL(c, count, (double)(a->keys * (a->width + a->value_width)), attend, a);
  }
  return EC_BACKEND_OK;
}

/* Checks the shapes of q, k, v and the mask. */
static uint32_t check_attention(const emo_call *c, attention *a) {
  if (a->q->rank != 4 || a->k->rank != 4 || a->v->rank != 4)
    return EC_ARG_FAIL(c, "'q', 'k' or 'v' has not the dimensions batch, heads, time, width");
  const int64_t *q = a->q->sizes, *k = a->k->sizes, *v = a->v->sizes;
  if (q[0] != k[0] || q[0] != v[0] || k[1] != v[1] || k[2] != v[2] || q[3] != k[3] || k[1] < 1 ||
      q[1] % k[1])
    return EC_ARG_FAIL(c, "'q', 'k' and 'v' do not fit: heads %lld, %lld and %lld, keys %lld and "
                          "%lld, widths %lld and %lld",
                       (long long)q[1], (long long)k[1], (long long)v[1], (long long)k[2],
                       (long long)v[2], (long long)q[3], (long long)k[3]);
  a->heads = q[1];
  a->groups = q[1] / k[1];
  a->queries = q[2];
  a->keys = k[2];
  a->width = q[3];
  a->value_width = v[3];
  int64_t all[] = {q[0], q[1], q[2], k[2]}, sizes[EMO_MAX_RANK];
  size_t rank = 4;
  if (a->mask)
    EC_BACKEND_TRY(
        emo_broadcast(c, all, 4, a->mask->sizes, a->mask->rank, sizes, &rank));
  return rank == 4 && (!a->mask || memcmp(all, sizes, sizeof all) == 0)
             ? (uint32_t)EC_BACKEND_OK
             : EC_ARG_FAIL(c, "'mask' has another shape than the scores");
}

uint32_t emo_sdpa(const emo_call *c) {
  attention a = {.scale = c->args[4].as.d, .is_causal = c->args[5].as.b};
  EC_BACKEND_TRY(emo_floats(c, 0, "q", &a.q));
  EC_BACKEND_TRY(emo_floats(c, 1, "k", &a.k));
  EC_BACKEND_TRY(emo_floats(c, 2, "v", &a.v));
  EC_BACKEND_TRY(emo_optional(c, 3, "mask", &a.mask));
  EC_BACKEND_TRY(check_attention(c, &a));
  const int64_t rows = emo_product(a.q->sizes, 0, 3);
  const int64_t sizes[] = {a.q->sizes[0], a.heads, a.queries, a.value_width};
  EC_BACKEND_TRY(emo_output(c, 6, 4, sizes, NULL, &a.out));
  return attend_all(c, &a, rows);
}
