/* Joined calls: pointwise calls that run block by block.
 *
 * A chain of pointwise calls on large tensors is a pass over memory for each call. A call with an
 * ec_joined (ec_call.joined) does all its checks and resizes its output, but leaves its loop there
 * instead of running it. ec_joined_run then runs the loops of all calls on one block of elements
 * after the other, so that what lies between them stays in the cache, and results that only other
 * loops read are never written to memory: the same loops on the same elements, with equal results.
 *
 * A loop is taken if its output has the layout of the others' and no loop can tell the order of
 * blocks: memory that one of them writes is either the same elements for another, or none of its
 * elements. All of this is checked with the addresses of the call.
 *
 * Loops of float32 arithmetic, each of which is the only reader of the one before, are a chain: its
 * blocks stay in registers (chain.h). */
#ifndef EC_KERNELS_POINTWISE_JOINED_H
#define EC_KERNELS_POINTWISE_JOINED_H

#include "kernels/iterate.h"
#include "kernels/pointwise/params.h"

enum { EC_JOINED_LOOPS = 16, EC_JOINED_OPERANDS = EC_ELEMENTWISE_INPUTS + 1 };

typedef struct ec_joined_loop {
  ec_elementwise_loop loop;
  ec_params params;
  ec_iter it; /* started */
  size_t item[EC_JOINED_OPERANDS];         /* bytes of an element */
  uint64_t numbers[EC_JOINED_OPERANDS][2]; /* operands that are no tensors of the call */
  ec_op_loop kind;
  size_t chain;   /* loops from this one on that are one chain; 1: none */
  size_t link;    /* the operand that a chain's loop takes from the one before */
  size_t place;   /* of the call in the run */
  size_t readers; /* place of the last call that reads the output, if nothing else does; else 0 */
  int buffer[EC_JOINED_OPERANDS]; /* where an operand is during a block; -1: in its memory */
} ec_joined_loop;

typedef struct ec_joined {
  size_t count;
  size_t place, readers; /* of the next loop */
  ec_op_loop kind;
  int64_t least;   /* elements of a loop that is taken */
  ec_tensor shape; /* of the outputs */
  ec_joined_loop loops[EC_JOINED_LOOPS];
} ec_joined;

/* Returns the next loop, to be filled up to `numbers`: `it` is started, and addresses outlast the
 * call. NULL: there are too many. */
static inline ec_joined_loop *ec_joined_next(ec_joined *j) {
  return j->count < EC_JOINED_LOOPS ? &j->loops[j->count] : NULL;
}

/* Leaves the loop that was filled, which writes `out`, to ec_joined_run. Returns false, without
 * effect, if it cannot be joined. */
bool ec_joined_take(ec_joined *joined, const ec_tensor *out);

/* Runs the loops, and forgets them. The run goes up to place `end`. */
void ec_joined_run(ec_joined *joined, size_t end, ec_threads *threads);

#endif
