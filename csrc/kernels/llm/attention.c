/* The choice of loops, threads and scratch memory for an attention. */
#include "kernels/llm/attention.h"

#include <math.h>

#include "core/alloc.h"
#include "core/checked.h"
#include "kernels/llm/blocks.h"
#include "kernels/llm/few.h"

enum {
  PIECE_PRODUCTS = 1 << 17, /* minimum multiplied by one thread */
  PIECE_OF_FEW_ROWS = 1 << 14, /* likewise of few rows, which wait for the memory: some 5 us */
  PIECES = 4                /* for each thread: pieces of a causal attention differ in size */
};

/* An attention whose tasks are split into pieces with scratch memory of their own. */
typedef struct split_attention {
  const ec_attention *a;
  ec_blocks blocks;
  bool few;
  int64_t tasks, count;
  float *scratch;
  size_t room; /* floats for one piece */
} split_attention;

/* The plain loop: one row at a time, in double precision. */
static void run_row(const ec_attention *a, const ec_attention_part *p, float *buffer,
                    double *weights, double *sums) {
  const int64_t keys = ec_min_i64(a->keys, ec_attention_limit(a, p->row));
  const int64_t first = ec_attention_first(a, p->row);
  const int64_t at = ec_attention_query(a, p, p->row);
  const float *mask = ec_attention_mask(a, p->batch, p->head, p->row);
  const float *q = ec_rows_read(&a->q, at, 1, buffer);
  double largest = -INFINITY, total = 0;
  for (int64_t d = 0; d < a->v.dim; d++) sums[d] = 0;
  for (int64_t j = first; j < keys; j++) {
    const int64_t key = ec_rows_at(&a->k, p->batch, p->head, j);
    const float *k = ec_rows_read(&a->k, key, 1, buffer + a->dim);
    double x = 0;
    for (int64_t d = 0; d < a->dim; d++) x += (double)q[d] * (double)k[d];
    weights[j] = x * (double)a->scale + (mask ? (double)mask[j] : 0);
    if (weights[j] > largest) largest = weights[j];
  }
  if (largest == -INFINITY) largest = 0;
  for (int64_t j = first; j < keys; j++) {
    const double weight = exp(weights[j] - largest);
    const int64_t value = ec_rows_at(&a->v, p->batch, p->head, j);
    const float *v = ec_rows_read(&a->v, value, 1, buffer);
    for (int64_t d = 0; d < a->v.dim; d++) sums[d] += weight * (double)v[d];
    total += weight;
  }
  for (int64_t d = 0; d < a->v.dim; d++) buffer[d] = (float)(sums[d] / total);
  ec_rows_write(&a->out, at, buffer, 1);
}

static ec_status run_reference(ec_call *c, const ec_attention *a) {
  float *buffer;
  double *weights, *sums;
  EC_TRY(ec_call_scratch(c, (size_t)ec_max_i64(a->dim, a->v.dim), 2 * sizeof *buffer, &buffer));
  EC_TRY(ec_call_scratch(c, (size_t)a->keys, sizeof *weights, &weights));
  EC_TRY(ec_call_scratch(c, (size_t)a->v.dim, sizeof *sums, &sums));
  for (int64_t b = 0; b < a->batches; b++)
    for (int64_t h = 0; h < a->kv_heads; h++)
      for (int64_t r = 0; r < ec_attention_rows(a); r++) {
        const ec_attention_part part = {b, h, r, 1};
        run_row(a, &part, buffer, weights, sums);
      }
  return EC_OK;
}

static void run_pieces(void *user, size_t begin, size_t end) {
  const split_attention *p = user;
  for (size_t i = begin; i < end; i++) {
    const int64_t from = ec_share(p->tasks, (int64_t)i, p->count);
    const int64_t to = ec_share(p->tasks, (int64_t)i + 1, p->count);
    float *scratch = p->scratch + i * p->room;
    if (p->few) ec_few_run(p->a, from, to, scratch);
    else ec_blocks_run(&p->blocks, from, to, scratch);
  }
}

/* Returns the number of pieces; results do not depend on it. */
static int64_t count_pieces(const ec_call *c, const split_attention *p) {
  const ec_attention *a = p->a;
  const double products = (double)ec_attention_rows(a) * (double)a->keys * (double)a->dim *
                          (double)(a->batches * a->kv_heads);
  const size_t threads = c->threads ? ec_threads_count(c->threads) : 1;
  const int64_t most = threads == 1 ? 1 : (int64_t)threads * (p->few ? 1 : PIECES);
  const double enough = products / (p->few ? PIECE_OF_FEW_ROWS : PIECE_PRODUCTS);
  const int64_t pieces_ = enough < (double)most ? (int64_t)enough : most;
  return ec_max_i64(1, ec_min_i64(pieces_, p->tasks));
}

ec_status ec_attention_run(ec_call *c, const ec_attention *a) {
  size_t floats, bytes;
  if (c->reference) return run_reference(c, a);
  split_attention p = {.a = a, .few = ec_attention_rows(a) <= EC_FEW_ROWS && !a->k_columns};
  bool fits = p.few ? ec_few_room(a, &p.room) : ec_blocks_init(a, &p.blocks);
  if (!p.few) p.room = p.blocks.room;
  p.tasks = a->batches * a->kv_heads * (p.few || !fits ? 1 : ec_blocks_count(&p.blocks));
  if (!p.tasks) return EC_OK;
  p.count = count_pieces(c, &p);
  p.room = (p.room + EC_ALIGN - 1) / EC_ALIGN * EC_ALIGN;
  fits = fits && ec_mul_size(p.room, (size_t)p.count, &floats) &&
         ec_mul_size(floats, sizeof *p.scratch, &bytes);
  p.scratch = fits ? ec_arena_alloc(c->scratch, bytes, EC_ALIGN) : NULL;
  if (!p.scratch) return ec_fail(c->err, EC_MEMORY_ALLOCATION_FAILED, "no memory for attention");
  ec_parallel_for(c, (size_t)p.count, 1, run_pieces, &p);
  return EC_OK;
}
