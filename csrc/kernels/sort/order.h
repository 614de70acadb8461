/* Order without comparisons: every value becomes an unsigned key that sorts as the value does, and
 * keys are sorted digit by digit. One sort serves all dtypes; it is stable and takes time in
 * proportion to the number of elements. NaN is the largest value, -0.0 equals 0.0.
 *
 * What was found is a list of positions in scratch memory: whatever overlaps in a hostile program,
 * they lie inside the row. */
#ifndef EC_KERNELS_SORT_ORDER_H
#define EC_KERNELS_SORT_ORDER_H

#include "kernels/copy.h"

typedef struct ec_entry {
  uint64_t key;
  int64_t at; /* position in the row */
} ec_entry;

typedef struct ec_order {
  int64_t n;
  ec_entry *e, *spare; /* n entries each */
  bool plain;          /* one way for rows of every length */
} ec_order;

/* Room for rows of up to `n` elements. */
ec_status ec_order_new(ec_call *c, int64_t n, ec_order *o);

/* Entries of o->n elements, `step` bytes apart; the key is complemented where `descending`. */
void ec_order_load(ec_order *o, ec_dtype dtype, const char *x, int64_t step, bool descending);

/* Sorts the entries; equal keys stay in order. */
void ec_order_sort(ec_order *o);

/* Brings the entry that sorting would bring to `k` (in [0, n)) to o->e[0]. */
void ec_order_select(ec_order *o, int64_t k);

/* The key of NaN, ascending, or UINT64_MAX and false for a dtype without. */
bool ec_order_nan(ec_dtype dtype, uint64_t *key);

#endif
