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
  HEADS = 16, /* multiplied together */
  KEYS = 64,  /* of one block */
  PART = 16,  /* keys converted to float at once */
  LANES = 16,
  STEP = 4,   /* keys multiplied at once */
  LINE = 64   /* bytes of a cache line */
};

/* Loops are part of each clone of their caller: a function of its own has the baseline's
 * instructions. */
#define INLINE static inline __attribute__((always_inline))

typedef float vector __attribute__((vector_size(4 * LANES)));
typedef float memory __attribute__((vector_size(4 * LANES), aligned(4), may_alias));

/* Some heads with scratch memory for their rows: heads x rows of everything. */
typedef struct few {
  const ec_attention *a;
  int64_t batch, head, heads, rows;
  float *q, *sums;           /* dim of keys, of values each */
  float *scores;             /* KEYS each */
  float *largest, *total;
  float *buffer;             /* PART converted rows of each head */
} few;

/* Rows of keys or values at some positions, as float; strides in elements. */
typedef struct part {
  const float *data;
  int64_t seq, head, count;
  bool in_place;
} part;

static int64_t most_heads(const ec_attention *a) { return ec_min_i64(HEADS, a->kv_heads); }

bool ec_few_room(const ec_attention *a, size_t *room) {
  const size_t heads = (size_t)most_heads(a), widest = (size_t)ec_max_i64(a->dim, a->v.dim);
  const size_t rows = heads * (size_t)ec_attention_rows(a);
  size_t each, all, buffer;
  return ec_add_size((size_t)a->dim, (size_t)a->v.dim, &each) &&
         ec_add_size(each, KEYS + 2, &each) && ec_mul_size(rows, each, &all) &&
         ec_mul_size(widest, heads * PART, &buffer) &&
         ec_add_size(all, buffer, room);
}

/* Asks for the memory that the next part reads at this place: the distances between rows are too
 * large for the processor to predict. An address past the end does nothing. */
static inline void prefetch_bytes(const void *from, int64_t ahead, int64_t count) {
  const uintptr_t start = (uintptr_t)from + (uintptr_t)ahead;
  for (int64_t i = 0; i < count; i += LINE)
    __builtin_prefetch((const void *)(start + (uintptr_t)i));
}

/* Sums each of four vectors. */
INLINE void sum_lanes(const vector *in, float *sums) {
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
INLINE void multiply_rows(const float *q, int64_t rows, int64_t dim, const float *const *k,
                          float *scores) {
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
    for (int64_t i = whole; i < dim; i++)
      for (size_t j = 0; j < STEP; j++) scores[j] += q[i] * k[j][i];
  }
}

/* Multiplies keys of all heads for the scores from `at` on; the last key stands for those past the
 * end, whose scores are not read. */
EC_CLONES static void multiply_keys(const few *f, const part *k, int64_t at) {
  const int64_t dim = f->a->dim, bytes = sizeof(float);
  for (int64_t j = 0; j < k->count; j += STEP)
    for (int64_t h = 0; h < f->heads; h++) {
      const float *keys[STEP];
      for (int64_t i = 0; i < STEP; i++)
        keys[i] = k->data + h * k->head + ec_min_i64(j + i, k->count - 1) * k->seq;
      for (int64_t i = 0; i < STEP && k->in_place; i++)
        prefetch_bytes(keys[i], PART * k->seq * bytes, dim * bytes);
      multiply_rows(f->q + h * f->rows * dim, f->rows, dim, keys,
                    f->scores + h * f->rows * KEYS + at + j);
    }
}

/* sums[r] += p[r][0] * v[0] + ... for STEP values. */
INLINE void add_rows(const float *p, int64_t rows, int64_t dim, const float *v, int64_t step,
                     float *sums) {
  const int64_t whole = dim / LANES * LANES;
  const float *b = v + step, *c = b + step, *d = c + step;
  for (int64_t r = 0; r < rows; r++, p += KEYS, sums += dim) {
    for (int64_t i = 0; i < whole; i += LANES) {
      const vector x = *(const memory *)(v + i) * p[0] + *(const memory *)(b + i) * p[1];
      const vector y = *(const memory *)(c + i) * p[2] + *(const memory *)(d + i) * p[3];
      *(memory *)(sums + i) += x + y;
    }
    for (int64_t i = whole; i < dim; i++)
      sums[i] += (v[i] * p[0] + b[i] * p[1]) + (c[i] * p[2] + d[i] * p[3]);
  }
}

/* Adds values of all heads with the weights from `at` on. */
EC_CLONES static void add_values(const few *f, const part *v, int64_t at) {
  const int64_t dim = f->a->v.dim, whole = v->count / STEP * STEP, bytes = sizeof(float);
  for (int64_t j = 0; j < whole; j += STEP)
    for (int64_t h = 0; h < f->heads; h++) {
      const float *values = v->data + h * v->head + j * v->seq;
      for (int64_t i = 0; i < STEP && v->in_place; i++)
        prefetch_bytes(values + i * v->seq, PART * v->seq * bytes, dim * bytes);
      add_rows(f->scores + h * f->rows * KEYS + at + j, f->rows, dim, values, v->seq,
               f->sums + h * f->rows * dim);
    }
  for (int64_t j = whole; j < v->count; j++)
    for (int64_t r = 0; r < f->heads * f->rows; r++) {
      const float *value = v->data + r / f->rows * v->head + j * v->seq;
      const float weight = f->scores[r * KEYS + at + j];
      for (int64_t i = 0; i < dim; i++) f->sums[r * dim + i] += value[i] * weight;
    }
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
  const float *mask = ec_attention_mask(a, f->batch, f->head + at / f->rows, row);
  const int64_t seen = ec_min_i64(n, ec_attention_limit(a, row) - first);
  const int64_t hidden = ec_min_i64(n, ec_attention_first(a, row) - first);
  float *x = f->scores + at * KEYS;
  for (int64_t i = 0; i < hidden; i++) x[i] = -INFINITY;
  for (int64_t i = ec_max_i64(seen, 0); i < n; i++) x[i] = -INFINITY;
  for (int64_t i = 0; mask && i < n; i++) x[i] += mask[first + i];
  const float before = f->largest[at], m = find_largest(x, n, before);
  const float base = m == -INFINITY ? 0 : m, factor = ec_exp_f32(before - base);
  if (factor != 1) scale_sums(f->sums + at * a->v.dim, a->v.dim, factor);
  f->total[at] = f->total[at] * factor + exponentiate(x, n, base);
  f->largest[at] = m;
}

/* Reads the rows of all heads at `count` positions from `at` on. */
static part read_part(const few *f, const ec_rows *from, int64_t at, int64_t count) {
  const int64_t dim = from->dim, row = ec_rows_at(from, f->batch, f->head, at);
  if (from->dtype == EC_FLOAT32)
    return (part){ec_rows_read(from, row, 1, NULL), from->seq * dim, from->head * dim, count, true};
  const int64_t size = dim * (int64_t)ec_dtype_size(from->dtype);
  const bool by_head = from->seq == 1; /* the positions of a head are adjacent */
  const int64_t run = by_head ? count : from->head == 1 ? f->heads : 1;
  for (int64_t i = 0; i < f->heads * count; i += run) {
    const int64_t h = by_head ? i / count : i % f->heads, j = by_head ? 0 : i / f->heads;
    const int64_t first = row + h * from->head + j * from->seq;
    prefetch_bytes(from->data + first * size, PART * from->seq * size, run * size);
    (void)ec_rows_read(from, first, run, f->buffer + i * dim);
  }
  if (by_head) return (part){f->buffer, dim, count * dim, count, false};
  return (part){f->buffer, f->heads * dim, dim, count, false};
}

/* Adds a block of keys and values to all rows. */
static void add_block(const few *f, int64_t first, int64_t n) {
  for (int64_t j = 0; j < n; j += PART) {
    const part k = read_part(f, &f->a->k, first + j, ec_min_i64(PART, n - j));
    multiply_keys(f, &k, j);
  }
  for (int64_t i = 0; i < f->heads * f->rows; i++) update_row(f, i, i % f->rows, first, n);
  for (int64_t j = 0; j < n; j += PART) {
    const part v = read_part(f, &f->a->v, first + j, ec_min_i64(PART, n - j));
    add_values(f, &v, j);
  }
}

static void run_heads(const few *f) {
  const ec_attention *a = f->a;
  for (int64_t i = 0; i < f->heads * f->rows; i++) {
    const ec_attention_part at = {f->batch, f->head + i / f->rows, 0, f->rows};
    float *to = f->q + i * a->dim;
    const float *q = ec_rows_read(&a->q, ec_attention_query(a, &at, i % f->rows), 1, to);
    for (int64_t d = 0; d < a->dim; d++) to[d] = q[d] * a->scale;
    f->largest[i] = -INFINITY;
    f->total[i] = 0;
  }
  memset(f->sums, 0, (size_t)(f->heads * f->rows * a->v.dim) * sizeof *f->sums);
  for (int64_t first = ec_attention_first(a, 0); first < a->keys; first += KEYS)
    add_block(f, first, ec_min_i64(KEYS, a->keys - first));
  for (int64_t i = 0; i < f->heads * f->rows; i++) {
    const ec_attention_part at = {f->batch, f->head + i / f->rows, 0, f->rows};
    ec_rows_write(&a->out, ec_attention_query(a, &at, i % f->rows), f->sums + i * a->v.dim,
                  ec_attention_factor(a, f->total[i]));
  }
}

void ec_few_run(const ec_attention *a, int64_t begin, int64_t end, float *scratch) {
  const int64_t rows = ec_attention_rows(a), most = most_heads(a) * rows;
  few f = {.a = a, .rows = rows};
  f.q = scratch;
  f.sums = f.q + most * a->dim;
  f.buffer = f.sums + most * a->v.dim;
  f.scores = f.buffer + most_heads(a) * PART * ec_max_i64(a->dim, a->v.dim);
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
