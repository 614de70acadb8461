/* Loops over the elements of two inputs and an output, of any layout. */
#ifndef CORTEX_M_LOOP_H
#define CORTEX_M_LOOP_H

#include "arguments.h"

enum { CM_A, CM_B, CM_OUT, CM_OPERANDS };

typedef struct cm_loop {
  size_t rank;
  int64_t sizes[CM_RANK];
  int64_t steps[CM_OPERANDS][CM_RANK]; /* in elements; 0: broadcast */
} cm_loop;

/* `n` elements of each operand, from index `at`, `step` elements apart. */
typedef struct cm_row {
  int64_t n;
  int64_t at[CM_OPERANDS], step[CM_OPERANDS];
} cm_row;

/* Sets the loop of an output with the shape that arguments `a` and `b` broadcast to (b == a: of a
 * unary operator) and resizes the output. */
uint32_t cm_loop_of(const cm_call *c, size_t a, size_t b, size_t out, cm_loop *loop);

/* Calls `fn` for each row of the last dimension. */
void cm_loop_run(const cm_loop *loop, void (*fn)(const void *user, const cm_row *row),
                 const void *user);

#endif
