/* Broadcasting, and one walk over up to six operands of any strides.
 *
 * An ec_iter drops dimensions of size 1, orders the others by the first operand's strides, merges
 * what is adjacent in all operands, and hands out inner loops, outermost dimensions last:
 *
 *   ec_iter it;
 *   ec_iter_init(&it, rank, sizes);
 *   ec_iter_tensor(&it, out);                        operand 0 decides the order
 *   ec_iter_tensor(&it, in);                         broadcast against `sizes`
 *   for (bool more = ec_iter_start(&it); more; more = ec_iter_next(&it))
 *     loop(it.count, it.at, it.step);                count >= 1, steps in bytes */
#ifndef EC_KERNELS_ITERATE_H
#define EC_KERNELS_ITERATE_H

#include "kernels/call.h"

enum { EC_ITER_OPERANDS = 6 };

/* A loop over `n` elements of some operands: where each starts, bytes between its elements. */
typedef void (*ec_loop)(int64_t n, char *const *at, const int64_t *step, const void *params);

typedef struct ec_iter {
  size_t operands, rank;
  size_t item;                /* bytes of the largest element */
  int64_t sizes[EC_MAX_RANK]; /* after ec_iter_start: innermost first */
  int64_t strides[EC_ITER_OPERANDS][EC_MAX_RANK]; /* bytes, same order */
  int64_t index[EC_MAX_RANK];
  int64_t count;                  /* of the current inner loop */
  int64_t unit;                   /* inner loops are cut at multiples of it (ec_iter_run) */
  char *at[EC_ITER_OPERANDS];     /* where it starts */
  int64_t step[EC_ITER_OPERANDS]; /* bytes between elements */
} ec_iter;

void ec_iter_init(ec_iter *it, size_t rank, const int64_t *sizes);

/* Adds memory with its own sizes and strides (in elements of `item` bytes): right-aligned with
 * the iterated sizes, 1 or missing dimensions repeat. The caller has checked that they fit. */
void ec_iter_add(ec_iter *it, const void *data, size_t item, size_t rank, const int64_t *sizes,
                 const int64_t *strides);
void ec_iter_tensor(ec_iter *it, const ec_tensor *t);

/* Orders and merges, and goes to the first inner loop; false when there are no elements. */
bool ec_iter_start(ec_iter *it);
/* Goes to the next inner loop; false behind the last. */
bool ec_iter_next(ec_iter *it);

/* ---- the same on several threads ----
 *
 * A walk that has started is cut into pieces along one dimension; each is a walk of its own, that
 * has started, too. Inner loops are cut at multiples of it->unit elements only (EC_ITER_UNIT unless
 * it is changed), so that what is done in vectors and what behind them does not depend on it. */

enum { EC_ITER_UNIT = 256, EC_ITER_PIECES = 4 /* for each thread */ };

/* Into how many pieces: 1 where it is small (`cost` is that of an element of 4 bytes or more; a
 * copied one costs 1) or where there is one thread. */
size_t ec_iter_pieces(const ec_call *c, const ec_iter *it, size_t cost);

/* Calls fn for each piece. */
typedef void (*ec_iter_fn)(void *user, ec_iter *it, size_t piece);
void ec_iter_run(const ec_call *c, const ec_iter *it, size_t pieces, ec_iter_fn fn, void *user);

/* Whether sizes broadcast to `to` unchanged. */
bool ec_broadcasts_to(size_t rank, const int64_t *sizes, size_t to_rank, const int64_t *to);

/* Broadcasts a tensor's sizes into `sizes` and `rank`, which start as rank 0; fails naming the
 * argument `i` that the tensor came from. */
ec_status ec_call_broadcast(ec_call *c, size_t i, const ec_tensor *t, size_t *rank,
                            int64_t sizes[EC_MAX_RANK]);

#endif
