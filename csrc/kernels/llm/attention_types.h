/* One attention: softmax(scale * q k^T + mask) v for every head. */
#ifndef EC_KERNELS_LLM_ATTENTION_TYPES_H
#define EC_KERNELS_LLM_ATTENTION_TYPES_H

#include "core/checked.h"
#include "kernels/call.h"
#include "kernels/llm/rows.h"

/* Query head h reads head h / group of the keys and values. The rows of one of these heads are
 * numbered: row r is position r / group of query head r % group. They share keys and values. */
typedef struct ec_attention {
  int64_t batches, kv_heads, group; /* group: query heads for each head of keys */
  int64_t queries, keys, dim;
  ec_rows q, k, v, out; /* out: rows as in q, as wide as those of v */
  float scale;
  bool causal;       /* the query at i sees keys up to start + i */
  int64_t start;
  int64_t window;    /* causal: number of the last keys that a query sees; 0: all */
  const float *mask; /* rows of keys, added to the scaled products; NULL: none */
  int64_t mask_batch, mask_head, mask_row; /* its strides in elements, by query head and position */
  bool zero_rows;    /* a row that sees no key is zeros, not NaN */
  bool k_columns;    /* keys are columns: dim x keys for each head, float32 */
} ec_attention;

/* A run of rows that share keys and values: rows [row, row + rows) of a head. */
typedef struct ec_attention_part {
  int64_t batch, head, row, rows;
} ec_attention_part;

static inline int64_t ec_attention_rows(const ec_attention *a) { return a->queries * a->group; }

/* Returns the position of query row `row`, counted in rows of q and of the output. */
static inline int64_t ec_attention_query(const ec_attention *a, const ec_attention_part *p,
                                         int64_t row) {
  return ec_rows_at(&a->q, p->batch, p->head * a->group + row % a->group, row / a->group);
}

/* Returns the number of keys that a row sees. */
static inline int64_t ec_attention_limit(const ec_attention *a, int64_t row) {
  return a->causal ? a->start + row / a->group + 1 : a->keys;
}

/* Returns the first key that a row sees. */
static inline int64_t ec_attention_first(const ec_attention *a, int64_t row) {
  return a->window ? ec_max_i64(0, ec_attention_limit(a, row) - a->window) : 0;
}

/* Returns the mask's row for query row `row` of a head of keys, or NULL. */
static inline const float *ec_attention_mask(const ec_attention *a, int64_t batch, int64_t head,
                                             int64_t row) {
  if (!a->mask) return NULL;
  return a->mask + batch * a->mask_batch + (head * a->group + row % a->group) * a->mask_head +
         row / a->group * a->mask_row;
}

/* Returns the factor of a row's sums, whose weights have this total: 0 if it saw no key. */
static inline float ec_attention_factor(const ec_attention *a, float total) {
  return a->zero_rows && total == 0 ? 0 : 1 / total;
}

#endif
