/* Loops over the elements of two inputs and an output, of any layout. */
#include "loop.h"

#include <string.h>

/* Sets the steps of an input, whose dimensions are the last ones of the loop. */
static void loop_set_steps(cm_loop *loop, int operand, const ec_backend_tensor *t) {
  const size_t first = loop->rank - t->rank;
  for (size_t d = 0; d < t->rank; d++)
    loop->steps[operand][first + d] = t->sizes[d] == 1 ? 0 : t->strides[d];
}

/* Sets the sizes of the loop to the shape that both inputs broadcast to. */
static uint32_t loop_set_sizes(const cm_call *c, const ec_backend_tensor *a,
                               const ec_backend_tensor *b, cm_loop *loop) {
  loop->rank = a->rank > b->rank ? a->rank : b->rank;
  for (size_t d = 0; d < loop->rank; d++) { /* from the last dimension */
    const int64_t x = d < a->rank ? a->sizes[a->rank - 1 - d] : 1;
    const int64_t y = d < b->rank ? b->sizes[b->rank - 1 - d] : 1;
    if (x != y && x != 1 && y != 1)
      return EC_ARG_FAIL(c,
                         "the inputs have %lld and %lld elements in dimension -%zu, which do not "
                         "broadcast",
                         (long long)x, (long long)y, d + 1);
    loop->sizes[loop->rank - 1 - d] = x == 1 ? y : x;
  }
  return EC_BACKEND_OK;
}

/* Returns whether two tensors have the same sizes and the same order in memory. */
static bool loop_same_layout(const ec_backend_tensor *a, const ec_backend_tensor *b) {
  return a->rank == b->rank && !memcmp(a->sizes, b->sizes, a->rank * sizeof *a->sizes) &&
         !memcmp(a->dim_order, b->dim_order, a->rank);
}

/* Makes one row of operands that all lie in the same order. */
static void loop_flatten(cm_loop *loop, int64_t n) {
  *loop = (cm_loop){.rank = 1, .sizes = {n}, .steps = {{1}, {1}, {1}}};
}

uint32_t cm_loop_of(const cm_call *c, size_t a, size_t b, size_t out, cm_loop *loop) {
  const ec_backend_tensor *x = cm_tensor(c, a), *y = cm_tensor(c, b);
  *loop = (cm_loop){0};
  EC_BACKEND_TRY(loop_set_sizes(c, x, y, loop));
  loop_set_steps(loop, CM_A, x);
  loop_set_steps(loop, CM_B, y);
  const bool same = loop_same_layout(x, y);
  const int64_t count = ec_arg_count(x);
  EC_BACKEND_TRY(c->host->resize(c->call, &c->args[out], loop->rank, loop->sizes));
  const ec_backend_tensor *to = cm_tensor(c, out);
  for (size_t d = 0; d < loop->rank; d++) loop->steps[CM_OUT][d] = to->strides[d];
  if (same && loop_same_layout(x, to)) loop_flatten(loop, count);
  return EC_BACKEND_OK;
}

/* Moves to the next index of the dimensions but the last; false after the last one. */
static bool loop_next(const cm_loop *loop, int64_t *index, cm_row *row) {
  for (size_t d = loop->rank - 1; d-- > 0;) {
    const int64_t moved = index[d] + 1 < loop->sizes[d] ? 1 : -index[d];
    index[d] += moved;
    for (size_t k = 0; k < CM_OPERANDS; k++) row->at[k] += moved * loop->steps[k][d];
    if (moved == 1) return true;
  }
  return false;
}

void cm_loop_run(const cm_loop *loop, void (*fn)(const void *user, const cm_row *row),
                 const void *user) {
  int64_t index[CM_RANK] = {0};
  cm_row row = {.n = 1};
  for (size_t d = 0; d < loop->rank; d++)
    if (!loop->sizes[d]) return;
  if (!loop->rank) {
    fn(user, &row);
    return;
  }
  row.n = loop->sizes[loop->rank - 1];
  for (size_t k = 0; k < CM_OPERANDS; k++) row.step[k] = loop->steps[k][loop->rank - 1];
  do {
    fn(user, &row);
  } while (loop_next(loop, index, &row));
}
