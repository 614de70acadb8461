/* Attention of blocks of rows. Everything is transposed, with query rows in the lanes of vectors:
 * scores are keys x rows, sums dim x rows. So the scores of one product are an operand of the next
 * as they are, and maxima and sums over keys need no sums over lanes. */
#include "kernels/llm/blocks.h"

#include <math.h>
#include <string.h>

#include "core/alloc.h"
#include "core/checked.h"
#include "core/simd.h"
#include "kernels/linalg/gemm.h"
#include "kernels/vecmath.h"

enum {
  KEYS = 96,     /* approximate number of keys in a block */
  PANELS = 4,    /* maximum number of panels of rows in one block */
  LANES = 16,    /* rows whose exponentials are computed together */
  ALIGNED = EC_ALIGN / sizeof(float)
};

/* A block of rows with scratch memory. */
typedef struct block {
  const ec_blocks *b;
  ec_attention_part part;
  int64_t width; /* rows, rounded up to a panel */
  float *q;      /* dim x width */
  float *k, *v;  /* panels of keys x dim, and of dim of values x keys */
  float *scores; /* keys x width */
  float *sums;   /* dim of values x width */
  float *largest, *total, *factor; /* width */
  float *buffer; /* converted rows */
} block;

static int64_t round_up(int64_t n, size_t step) {
  return (n + (int64_t)step - 1) / (int64_t)step * (int64_t)step;
}

bool ec_blocks_init(const ec_attention *a, ec_blocks *b) {
  const ec_micro *micro = ec_micro_find(EC_MICRO_FLOAT);
  const size_t panel = micro->cols > LANES ? micro->cols : LANES;
  *b = (ec_blocks){.a = a, .micro = micro, .panel = panel};
  b->dim = round_up(ec_max_i64(a->dim, a->v.dim), micro->rows);
  b->keys = round_up(ec_min_i64(KEYS, a->keys), micro->rows);
  b->rows = ec_min_i64(round_up(ec_attention_rows(a), panel), PANELS * (int64_t)panel);
  const size_t dim = (size_t)round_up(b->dim, ALIGNED), rows = (size_t)b->rows;
  const size_t keys = (size_t)round_up(b->keys, ALIGNED);
  size_t by_dim;
  return ec_mul_size(dim, 2 * rows + 2 * keys + (rows > keys ? rows : keys), &by_dim) &&
         ec_add_size(by_dim, (keys + 3) * rows, &b->room);
}

int64_t ec_blocks_count(const ec_blocks *b) {
  return (ec_attention_rows(b->a) + b->rows - 1) / b->rows;
}

/* Divides scratch memory; every part is aligned. */
static void divide_scratch(block *w, float *scratch) {
  const int64_t dim = round_up(w->b->dim, ALIGNED), keys = round_up(w->b->keys, ALIGNED);
  const int64_t rows = w->b->rows;
  w->q = scratch;
  w->sums = w->q + dim * rows;
  w->k = w->sums + dim * rows;
  w->v = w->k + dim * keys;
  w->scores = w->v + dim * keys;
  w->largest = w->scores + keys * rows;
  w->total = w->largest + rows;
  w->factor = w->total + rows;
  w->buffer = w->factor + rows;
}

/* Packs lanes x depth numbers of `side` into panels of `width` lanes. */
static void pack_panels(const ec_gemm_side *side, int64_t lanes, int64_t depth, size_t width,
                        float *to) {
  const ec_gemm_pack pack = ec_gemm_pack_strided(EC_FLOAT32);
  for (int64_t l = 0; l < lanes; l += (int64_t)width) {
    const ec_gemm_panel panel = {l, ec_min_i64((int64_t)width, lanes - l), 0, depth};
    pack(side, &panel, width, to + l * depth);
  }
}

/* Packs the scaled rows of queries: one panel as wide as the block. */
static void pack_queries(block *w) {
  const ec_attention *a = w->b->a;
  for (int64_t r = 0; r < w->part.rows; r++) {
    float *to = w->buffer + r * a->dim;
    const int64_t row = ec_attention_query(a, &w->part, w->part.row + r);
    const float *q = ec_rows_read(&a->q, row, 1, to);
    for (int64_t d = 0; d < a->dim; d++) to[d] = q[d] * a->scale;
  }
  const ec_gemm_side side = {.data = w->buffer, .lane = a->dim, .k = 1};
  pack_panels(&side, w->part.rows, a->dim, (size_t)w->width, w->q);
}

/* Returns n rows of keys or values as floats, `step` apart: in place or in the buffer. */
static const float *read_rows(const block *w, const ec_rows *from, int64_t first, int64_t n,
                              int64_t *step) {
  const int64_t row = ec_rows_at(from, w->part.batch, w->part.head, first);
  if (from->dtype == EC_FLOAT32) {
    *step = from->seq * from->dim;
    return ec_rows_read(from, row, n, NULL);
  }
  const int64_t run = from->seq == 1 ? n : 1; /* adjacent rows */
  for (int64_t j = 0; j < n; j += run)
    (void)ec_rows_read(from, row + j * from->seq, run, w->buffer + j * from->dim);
  *step = from->dim;
  return w->buffer;
}

/* One product: sums (+)= panels times `right`, which has the block's rows in lanes. */
static void multiply_panels(const block *w, const float *panels, int64_t lanes, int64_t depth,
                            const float *right, float *sums, bool accumulate) {
  const ec_micro *micro = w->b->micro;
  const int64_t height = (int64_t)micro->rows, width = (int64_t)micro->cols;
  for (int64_t c = 0; c < w->width; c += width)
    for (int64_t l = 0; l < lanes; l += height) {
      const int64_t rows = ec_min_i64(height, lanes - l);
      micro->fn[(rows - 1) * EC_MICRO_STEPS / height]((size_t)depth, panels + l * depth, right + c,
                                                      (size_t)w->width, sums + l * w->width + c,
                                                      (size_t)w->width, accumulate);
    }
}

/* Adds n numbers of LANES rows of a mask, a square at a time: rows may be so far apart that only
 * some of them can be in the cache together. */
EC_CLONES static void add_rows(float *x, int64_t n, int64_t width, const float *const *rows) {
  float square[LANES][LANES] = {{0}};
  for (int64_t first = 0; first < n; first += LANES) {
    const int64_t count = ec_min_i64(n - first, LANES);
    for (size_t l = 0; l < LANES; l++)
      memcpy(square[l], rows[l] + first, (size_t)count * sizeof **square);
    for (int64_t j = 0; j < count; j++, x += width)
      for (size_t l = 0; l < LANES; l++) x[l] += square[l][j];
  }
}

/* Adds n numbers to all rows. */
EC_CLONES static void add_row(float *x, int64_t n, int64_t width, const float *row) {
  for (int64_t j = 0; j < n; j++, x += width)
    for (int64_t r = 0; r < width; r++) x[r] += row[j];
}

/* Adds the mask. Lanes past the last row repeat it; their scores are not read. */
static void add_mask(const block *w, int64_t first, int64_t n) {
  const ec_attention *a = w->b->a;
  const ec_attention_part *p = &w->part;
  if (!a->mask_row && (!a->mask_head || a->group == 1)) {
    add_row(w->scores, n, w->width, ec_attention_mask(a, p->batch, p->head, p->row) + first);
    return;
  }
  for (int64_t r = 0; r < w->width; r += LANES) {
    const float *rows[LANES];
    for (int64_t l = 0; l < LANES; l++) {
      const int64_t row = p->row + ec_min_i64(r + l, p->rows - 1);
      rows[l] = ec_attention_mask(a, p->batch, p->head, row) + first;
    }
    add_rows(w->scores + r, n, w->width, rows);
  }
}

/* Hides keys before the windows of rows. */
static void hide_before_window(const block *w, int64_t first, int64_t n) {
  for (int64_t r = 0; r < w->part.rows; r++) {
    const int64_t hidden = ec_attention_first(w->b->a, w->part.row + r) - first;
    for (int64_t j = 0; j < ec_min_i64(hidden, n); j++) w->scores[j * w->width + r] = -INFINITY;
  }
}

/* Adds the mask, and hides keys that causal rows do not see. */
static void mask_scores(const block *w, int64_t first, int64_t n) {
  const ec_attention *a = w->b->a;
  if (a->mask) add_mask(w, first, n);
  if (a->window) hide_before_window(w, first, n);
  if (ec_attention_limit(a, w->part.row) >= first + n) return;
  for (int64_t r = 0; r < w->part.rows; r++) {
    const int64_t seen = ec_attention_limit(a, w->part.row + r) - first;
    float *x = w->scores + r;
    for (int64_t j = ec_max_i64(seen, 0); j < n; j++) x[j * w->width] = -INFINITY;
  }
}

/* Updates the maxima of LANES rows. Returns true if the sums have to be rescaled. */
EC_CLONES static bool update_largest(const float *x, int64_t n, int64_t width, float *largest,
                                     float *restrict factor) {
  float m[LANES], changed = 0;
  memcpy(m, largest, sizeof m);
  for (int64_t j = 0; j < n; j++, x += width)
    for (size_t l = 0; l < LANES; l++) m[l] = x[l] > m[l] ? x[l] : m[l];
  for (size_t l = 0; l < LANES; l++) {
    factor[l] = ec_exp_f32(largest[l] - (m[l] == -INFINITY ? 0 : m[l]));
    changed += factor[l] != 1;
  }
  memcpy(largest, m, sizeof m);
  return changed > 0;
}

/* Replaces the scores of LANES rows by e^(x - m), and adds them to the totals. */
EC_CLONES static void exponentiate(float *x, int64_t n, int64_t width, const float *largest,
                                   const float *factor, float *restrict total) {
  float m[LANES], sum[LANES];
  for (size_t l = 0; l < LANES; l++) m[l] = largest[l] == -INFINITY ? 0 : largest[l];
  for (size_t l = 0; l < LANES; l++) sum[l] = total[l] * factor[l];
  for (int64_t j = 0; j < n; j++, x += width) {
    float e[LANES];
    for (size_t l = 0; l < LANES; l++) e[l] = ec_exp_f32(x[l] - m[l]);
    for (size_t l = 0; l < LANES; l++) sum[l] += e[l];
    memcpy(x, e, sizeof e);
  }
  memcpy(total, sum, sizeof sum);
}

EC_CLONES static void scale_sums(float *restrict sums, int64_t n, int64_t width,
                                 const float *restrict factor) {
  for (int64_t d = 0; d < n; d++, sums += width)
    for (int64_t r = 0; r < width; r++) sums[r] *= factor[r];
}

/* Turns scores into weights. */
static void weigh_scores(const block *w, int64_t n) {
  bool changed = false;
  for (int64_t r = 0; r < w->width; r += LANES) {
    changed |= update_largest(w->scores + r, n, w->width, w->largest + r, w->factor + r);
    exponentiate(w->scores + r, n, w->width, w->largest + r, w->factor + r, w->total + r);
  }
  if (changed) scale_sums(w->sums, w->b->dim, w->width, w->factor);
}

/* Packs n keys into panels. */
static void pack_keys(const block *w, int64_t first, int64_t n) {
  const ec_attention *a = w->b->a;
  ec_gemm_side side = {.lane = 1, .k = a->keys};
  if (a->k_columns) {
    const int64_t head = ec_rows_at(&a->k, w->part.batch, w->part.head, 0);
    side.data = ec_rows_read(&a->k, head, 1, NULL) + first;
  } else {
    side.data = read_rows(w, &a->k, first, n, &side.lane);
    side.k = 1;
  }
  pack_panels(&side, n, a->dim, w->b->micro->rows, w->k);
}

/* Adds a block of keys and values. */
static void add_keys(const block *w, int64_t first, int64_t n) {
  const ec_attention *a = w->b->a;
  int64_t step;
  pack_keys(w, first, n);
  multiply_panels(w, w->k, n, a->dim, w->q, w->scores, false);
  mask_scores(w, first, n);
  weigh_scores(w, n);
  const float *rows = read_rows(w, &a->v, first, n, &step);
  const ec_gemm_side v = {.data = rows, .lane = 1, .k = step};
  pack_panels(&v, a->v.dim, n, w->b->micro->rows, w->v);
  multiply_panels(w, w->v, a->v.dim, n, w->scores, w->sums, true);
}

static void run_block(block *w) {
  const ec_attention *a = w->b->a;
  const int64_t last = w->part.row + w->part.rows - 1;
  const int64_t keys = ec_min_i64(a->keys, ec_attention_limit(a, last));
  w->width = round_up(w->part.rows, w->b->panel);
  pack_queries(w);
  memset(w->sums, 0, (size_t)(w->b->dim * w->width) * sizeof *w->sums);
  memset(w->total, 0, (size_t)w->width * sizeof *w->total);
  for (int64_t r = 0; r < w->width; r++) w->largest[r] = -INFINITY;
  for (int64_t first = ec_attention_first(a, w->part.row); first < keys; first += w->b->keys)
    add_keys(w, first, ec_min_i64(w->b->keys, keys - first));
  for (int64_t r = 0; r < w->part.rows; r++) {
    for (int64_t d = 0; d < a->v.dim; d++) w->buffer[d] = w->sums[d * w->width + r];
    ec_rows_write(&a->out, ec_attention_query(a, &w->part, w->part.row + r), w->buffer,
                  ec_attention_factor(a, w->total[r]));
  }
}

void ec_blocks_run(const ec_blocks *b, int64_t begin, int64_t end, float *scratch) {
  const int64_t count = ec_blocks_count(b), rows = ec_attention_rows(b->a);
  const int64_t heads = b->a->kv_heads;
  const bool by_rows = b->a->mask_row && !b->a->mask_head; /* heads read the same rows of it */
  block w = {.b = b};
  divide_scratch(&w, scratch);
  for (int64_t i = begin; i < end; i++) {
    const int64_t at = i % (heads * count);
    const int64_t head = by_rows ? at % heads : at / count;
    const int64_t row = (by_rows ? at / heads : at % count) * b->rows;
    w.part = (ec_attention_part){i / (heads * count), head, row, ec_min_i64(b->rows, rows - row)};
    run_block(&w);
  }
}
