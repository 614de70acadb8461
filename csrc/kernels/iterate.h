/* Broadcasting, and a walk over up to six operands with any strides.
 *
 * An ec_iter drops dimensions of size 1, orders the others by the first operand's strides, merges
 * dimensions that are adjacent in all operands, and yields inner loops, outermost dimensions last:
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
enum {
  EC_ITER_PIECE_COST = 1 << 15, /* minimum cost of a piece */
  EC_ITER_WHOLE_COST = 1 << 18  /* of a parallel loop: waking a thread takes some 10 us */
};

/* A loop over `n` elements of some operands: `at` holds their starts, `step` the bytes between
 * elements. */
typedef void (*ec_loop)(int64_t n, char *const *at, const int64_t *step, const void *params);

typedef struct ec_iter {
  size_t operands, rank;
  size_t item;                /* bytes of the largest element */
  int64_t sizes[EC_MAX_RANK]; /* after ec_iter_start: innermost first */
  int64_t strides[EC_ITER_OPERANDS][EC_MAX_RANK]; /* bytes, same order */
  int64_t index[EC_MAX_RANK];
  int64_t count;                  /* of the current inner loop */
  int64_t unit;                   /* inner loops are split at multiples of it (ec_iter_run) */
  char *at[EC_ITER_OPERANDS];     /* start of the current inner loop */
  int64_t step[EC_ITER_OPERANDS]; /* bytes between elements */
} ec_iter;

void ec_iter_init(ec_iter *it, size_t rank, const int64_t *sizes);

/* Adds memory with its own sizes and strides (in elements of `item` bytes), right-aligned with the
 * iterated sizes. Dimensions that are 1 or missing repeat. The caller has checked that they fit. */
void ec_iter_add(ec_iter *it, const void *data, size_t item, size_t rank, const int64_t *sizes,
                 const int64_t *strides);
void ec_iter_tensor(ec_iter *it, const ec_tensor *t);

/* Orders and merges, and moves to the first inner loop; false without elements. */
bool ec_iter_start(ec_iter *it);
/* Moves to the next inner loop; false after the last. */
bool ec_iter_next(ec_iter *it);

/* ---- parallel walks ----
 *
 * A started walk is split into pieces along one dimension; each piece is a started walk, too. Inner
 * loops are split only at multiples of it->unit elements (EC_ITER_UNIT unless changed), so that the
 * split between vectors and scalar remainders does not depend on the number of pieces. */

enum { EC_ITER_UNIT = 256, EC_ITER_PIECES = 4 /* for each thread */ };

/* Returns the number of pieces: 1 for a small loop or a single thread. `cost` is that of an element
 * of 4 bytes or more; copying one costs 1. */
size_t ec_iter_pieces(const ec_call *c, const ec_iter *it, size_t cost);

/* Called for each piece. */
typedef void (*ec_iter_fn)(void *user, ec_iter *it, size_t piece);
void ec_iter_run(const ec_call *c, const ec_iter *it, size_t pieces, ec_iter_fn fn, void *user);

/* True if the sizes broadcast to `to` and leave it unchanged. */
bool ec_broadcasts_to(size_t rank, const int64_t *sizes, size_t to_rank, const int64_t *to);

/* Broadcasts a tensor's sizes into `sizes` and `rank`, which start as rank 0. An error names
 * argument `i`, the tensor's. */
ec_status ec_call_broadcast(ec_call *c, size_t i, const ec_tensor *t, size_t *rank,
                            int64_t sizes[EC_MAX_RANK]);

#endif
