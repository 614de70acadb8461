/* Order without comparisons: every value becomes an unsigned key with the same order, and keys are
 * sorted digit by digit. One sort serves all dtypes. It is stable and linear in the number of
 * elements. NaN is the largest value, -0.0 equals 0.0.
 *
 * The result is a list of positions in scratch memory. Even if tensors of a hostile program
 * overlap, the positions are inside the row. */
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
  bool plain;          /* use one algorithm for rows of every length */
} ec_order;

/* Allocates entries for rows of up to `n` elements. */
ec_status ec_order_new(ec_call *c, int64_t n, ec_order *o);

/* Loads entries of o->n elements, `step` bytes apart. `descending` complements the keys. */
void ec_order_load(ec_order *o, ec_dtype dtype, const char *x, int64_t step, bool descending);

/* Sorts the entries. The sort is stable. */
void ec_order_sort(ec_order *o);

/* Moves the entry that sorting would place at `k` (in [0, n)) to o->e[0]. */
void ec_order_select(ec_order *o, int64_t k);

/* Returns the ascending key of NaN, or UINT64_MAX and false for a dtype without NaN. */
bool ec_order_nan(ec_dtype dtype, uint64_t *key);

#endif
