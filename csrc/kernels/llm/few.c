/* Attention of a few rows: keys and values are read once, in the order of memory. A block of keys
 * is multiplied for some adjacent heads, whose rows of one key are adjacent in a cache; then each
 * row updates its maximum and sum, and the same block of values is added. Results of a head depend
 * on no other head, so any split of heads gives the same bits. */
#include "kernels/llm/few.h"

#include <math.h>
#include <string.h>

#include "core/checked.h"
#include "core/simd.h"
#include "kernels/vecmath.h"

enum {
  HEADS = 8, /* multiplied together */
  KEYS = 64, /* of one block */
  LANES = 16,
  STEP = 4 /* keys multiplied at once */
};

typedef float vector __attribute__((vector_size(4 * LANES)));
typedef float memory __attribute__((vector_size(4 * LANES), aligned(4), may_alias));

/* Some heads with scratch memory for their rows: heads x rows of everything. */
typedef struct few {
  const ec_attention *a;
  int64_t batch, head, heads, rows;
  float *q, *sums;           /* dim each */
  float *scores;             /* KEYS each */
  float *largest, *total;
  float *buffer;             /* STEP converted rows of keys or values */
} few;

bool ec_few_room(const ec_attention *a, size_t *room) {
  const size_t rows = HEADS * (size_t)ec_attention_rows(a), dim = (size_t)a->dim;
  size_t each, all, buffer;
  return ec_mul_size(dim, 2, &each) && ec_add_size(each, KEYS + 2, &each) &&
         ec_mul_size(rows, each, &all) && ec_mul_size(dim, STEP, &buffer) &&
         ec_add_size(all, buffer, room);
}

/* Sums each of four vectors. */
static inline void sum_lanes(const vector *in, float *sums) {
  const vector ab =
      EC_SHUFFLE(in[0], in[1], 0, 1, 2, 3, 4, 5, 6, 7, 16, 17, 18, 19, 20, 21, 22, 23) +
      EC_SHUFFLE(in[0], in[1], 8, 9, 10, 11, 12, 13, 14, 15, 24, 25, 26, 27, 28, 29, 30, 31);
  const vector cd =
      EC_SHUFFLE(in[2], in[3], 0, 1, 2, 3, 4, 5, 6, 7, 16, 17, 18, 19, 20, 21, 22, 23) +
      EC_SHUFFLE(in[2], in[3], 8, 9, 10, 11, 12, 13, 14, 15, 24, 25, 26, 27, 28, 29, 30, 31);
  vector x = EC_SHUFFLE(ab, cd, 0, 1, 2, 3, 8, 9, 10, 11, 16, 17, 18, 19, 24, 25, 26, 27) +
             EC_SHUFFLE(ab, cd, 4, 5, 6, 7, 12, 13, 14, 15, 20, 21, 22, 23, 28, 29, 30, 31);
  x += EC_SHUFFLE(x, x, 2, 3, 0, 1, 6, 7, 4, 5, 10, 11, 8, 9, 14, 15, 12, 13);
  x += EC_SHUFFLE(x, x, 1, 0, 3, 2, 5, 4, 7, 6, 9, 8, 11, 10, 13, 12, 15, 14);
  for (size_t j = 0; j < STEP; j++) sums[j] = x[4 * j];
}

/* scores[r * KEYS + j] = q[r] . k[j] for STEP keys. */
EC_CLONES static void multiply_keys(const float *q, int64_t rows, int64_t dim,
                                    const float *const *k, float *scores) {
  const int64_t whole = dim / LANES * LANES;
  for (int64_t r = 0; r < rows; r++, q += dim, scores += KEYS) {
    vector sum[STEP] = {{0}, {0}, {0}, {0}};
    for (int64_t i = 0; i < whole; i += LANES) {
      const vector x = *(const memory *)(q + i);
      sum[0] += x * *(const memory *)(k[0] + i);
      sum[1] += x * *(const memory *)(k[1] + i);
      sum[2] += x * *(const memory *)(k[2] + i);
      sum[3] += x * *(const memory *)(k[3] + i);
    }
    sum_lanes(sum, scores);
    for (int64_t j = 0; j < STEP; j++)
      for (int64_t i = whole; i < dim; i++) scores[j] += q[i] * k[j][i];
  }
}

/* sums[r] += p[r][0] * v[0] + ... for STEP values. */
EC_CLONES static void add_values(const float *p, int64_t rows, int64_t dim, const float *const *v,
                                 float *sums) {
  const int64_t whole = dim / LANES * LANES;
  for (int64_t r = 0; r < rows; r++, p += KEYS, sums += dim) {
    for (int64_t i = 0; i < whole; i += LANES) {
      const vector a = *(const memory *)(v[0] + i) * p[0] + *(const memory *)(v[1] + i) * p[1];
      const vector b = *(const memory *)(v[2] + i) * p[2] + *(const memory *)(v[3] + i) * p[3];
      *(memory *)(sums + i) += a + b;
    }
    for (int64_t i = whole; i < dim; i++)
      sums[i] += (v[0][i] * p[0] + v[1][i] * p[1]) + (v[2][i] * p[2] + v[3][i] * p[3]);
  }
}

EC_CLONES static void add_value(const float *p, int64_t rows, int64_t dim, const float *v,
                                float *sums) {
  for (int64_t r = 0; r < rows; r++, p += KEYS, sums += dim)
    for (int64_t i = 0; i < dim; i++) sums[i] += v[i] * p[0];
}

EC_CLONES static float find_largest(const float *x, int64_t n, float m) {
  for (int64_t i = 0; i < n; i++) m = x[i] > m ? x[i] : m;
  return m;
}

/* Replaces scores by e^(x - m). Returns their sum. */
EC_CLONES static float exponentiate(float *x, int64_t n, float m) {
  float lane[LANES] = {0}, total = 0;
  int64_t i = 0;
  for (; i + LANES <= n; i += LANES)
    for (int64_t l = 0; l < LANES; l++) {
      x[i + l] = ec_exp_f32(x[i + l] - m);
      lane[l] += x[i + l];
    }
  for (int64_t l = 0; i < n; i++, l++) {
    x[i] = ec_exp_f32(x[i] - m);
    lane[l] += x[i];
  }
  for (int64_t l = 0; l < LANES; l++) total += lane[l];
  return total;
}

EC_CLONES static void scale_sums(float *x, int64_t n, float factor) {
  for (int64_t i = 0; i < n; i++) x[i] *= factor;
}

/* Turns the scores of a row for keys [first, first + n) into weights, and rescales its sums. */
static void update_row(const few *f, int64_t at, int64_t row, int64_t first, int64_t n) {
  const ec_attention *a = f->a;
  const float *mask = ec_attention_mask(a, row);
  const int64_t seen = ec_min_i64(n, ec_attention_limit(a, row) - first);
  float *x = f->scores + at * KEYS;
  for (int64_t i = ec_max_i64(seen, 0); i < n; i++) x[i] = -INFINITY;
  for (int64_t i = 0; mask && i < n; i++) x[i] += mask[first + i];
  const float before = f->largest[at], m = find_largest(x, n, before);
  const float base = m == -INFINITY ? 0 : m, factor = ec_exp_f32(before - base);
  if (factor != 1) scale_sums(f->sums + at * a->dim, a->dim, factor);
  f->total[at] = f->total[at] * factor + exponentiate(x, n, base);
  f->largest[at] = m;
}

/* Finds STEP rows from `at`, the last one repeated past `end`. */
static void find_rows(const few *f, const ec_rows *from, int64_t head, int64_t at, int64_t end,
                      const float **rows) {
  for (int64_t j = 0; j < STEP; j++) {
    const int64_t row = ec_rows_at(from, f->batch, f->head + head, ec_min_i64(at + j, end - 1));
    rows[j] = ec_rows_read(from, row, f->buffer + j * f->a->dim);
  }
}

/* Adds a block of keys and values to all rows. */
static void add_block(const few *f, int64_t first, int64_t n) {
  const int64_t dim = f->a->dim, count = f->rows;
  const float *rows[STEP];
  for (int64_t j = 0; j < n; j += STEP)
    for (int64_t h = 0; h < f->heads; h++) {
      find_rows(f, &f->a->k, h, first + j, first + n, rows);
      multiply_keys(f->q + h * count * dim, count, dim, rows, f->scores + h * count * KEYS + j);
    }
  for (int64_t i = 0; i < f->heads * count; i++) update_row(f, i, i % count, first, n);
  for (int64_t j = 0; j < n; j += STEP)
    for (int64_t h = 0; h < f->heads; h++) {
      float *p = f->scores + h * count * KEYS + j, *sums = f->sums + h * count * dim;
      find_rows(f, &f->a->v, h, first + j, first + n, rows);
      if (j + STEP <= n) add_values(p, count, dim, rows, sums);
      else
        for (int64_t i = j; i < n; i++) add_value(p + i - j, count, dim, rows[i - j], sums);
    }
}

static void run_heads(const few *f) {
  const ec_attention *a = f->a;
  for (int64_t i = 0; i < f->heads * f->rows; i++) {
    const ec_attention_part part = {f->batch, f->head + i / f->rows, 0, f->rows};
    float *to = f->q + i * a->dim;
    const float *q = ec_rows_read(&a->q, ec_attention_query(a, &part, i % f->rows), to);
    for (int64_t d = 0; d < a->dim; d++) to[d] = q[d] * a->scale;
    f->largest[i] = -INFINITY;
    f->total[i] = 0;
  }
  memset(f->sums, 0, (size_t)(f->heads * f->rows * a->dim) * sizeof *f->sums);
  for (int64_t first = 0; first < a->keys; first += KEYS)
    add_block(f, first, ec_min_i64(KEYS, a->keys - first));
  for (int64_t i = 0; i < f->heads * f->rows; i++) {
    const ec_attention_part part = {f->batch, f->head + i / f->rows, 0, f->rows};
    ec_rows_write(&a->out, ec_attention_query(a, &part, i % f->rows), f->sums + i * a->dim,
                  1 / f->total[i]);
  }
}

void ec_few_run(const ec_attention *a, int64_t begin, int64_t end, float *scratch) {
  const int64_t rows = ec_attention_rows(a), most = HEADS * rows;
  few f = {.a = a, .rows = rows};
  f.q = scratch;
  f.sums = f.q + most * a->dim;
  f.buffer = f.sums + most * a->dim;
  f.scores = f.buffer + STEP * a->dim;
  f.largest = f.scores + most * KEYS;
  f.total = f.largest + most;
  while (begin < end) {
    f.batch = begin / a->kv_heads;
    f.head = begin % a->kv_heads;
    f.heads = ec_min_i64(ec_min_i64(HEADS, end - begin), a->kv_heads - f.head);
    run_heads(&f);
    begin += f.heads;
  }
}
