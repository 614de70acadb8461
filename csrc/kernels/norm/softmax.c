/* _softmax and _log_softmax along any dimension of any layout. */
#include <string.h>

#include "core/alloc.h"
#include "core/checked.h"
#include "core/simd.h"
#include "core/template.h"
#include "kernels/iterate.h"
#include "kernels/vecmath.h"

enum {
  SOFTMAX_LANES = 16,   /* partial sums of a row */
  SOFTMAX_BLOCK = 1024, /* elements whose sum stays in the compute type */
  SOFTMAX_COST = 4,     /* of an element, relative to a copied one */
  SOFTMAX_ROWS = 64     /* adjacent rows: some cache lines, so that memory is prefetched */
};

typedef double softmax_doubles __attribute__((vector_size(SOFTMAX_LANES / 2 * sizeof(double))));

/* A part of a function with EC_CLONES. */
#define SOFTMAX_PART static inline __attribute__((always_inline))

#define EC_TEMPLATE "kernels/norm/softmax.tmpl.h"
#include "core/foreach/floating.h"
#undef EC_TEMPLATE

typedef void (*softmax_fn)(const char *from, int64_t step, char *to, int64_t to_step, size_t n,
                           void *buffer, bool log_of, bool zero_rows);

static const softmax_fn rows[EC_DTYPE_COUNT] = {EC_ROWS_FLOATING(softmax_row)};
static const softmax_fn lanes[EC_DTYPE_COUNT] = {EC_ROWS_FLOATING(softmax_lanes)};

enum { SELF, DIM, HALF_TO_FLOAT, OUT };

/* One row of the dimension: its length and steps. */
typedef struct softmax {
  ec_dtype dtype;
  size_t n;
  int64_t step, out_step;
  char *buffer; /* `room` bytes per piece */
  size_t room;
  bool log_of, zero_rows, reference;
} softmax;

/* True if rows are adjacent in memory. */
static bool is_adjacent(const softmax *s, const ec_iter *it) {
  const int64_t item = (int64_t)ec_dtype_size(s->dtype);
  return it->step[0] == item && it->step[1] == item && !s->reference && !s->zero_rows;
}

/* Runs the rows from it->at on: operand 0 is the output, 1 the input. */
static void run_rows(const softmax *s, const ec_iter *it, void *buffer) {
  int64_t item = (int64_t)ec_dtype_size(s->dtype), i = 0;
  const bool adjacent = is_adjacent(s, it);
  for (; adjacent && i + SOFTMAX_ROWS <= it->count; i += SOFTMAX_ROWS)
    lanes[s->dtype](it->at[1] + i * item, s->step, it->at[0] + i * item, s->out_step, s->n,
                    buffer, s->log_of, false);
  for (; i < it->count; i++)
    rows[s->dtype](it->at[1] + i * it->step[1], s->step, it->at[0] + i * it->step[0], s->out_step,
                   s->n, buffer, s->log_of, s->zero_rows);
}

static void run_piece(void *user, ec_iter *it, size_t piece) {
  const softmax *s = user;
  do run_rows(s, it, s->buffer + piece * s->room);
  while (ec_iter_next(it));
}

static ec_status run_softmax(ec_call *c, bool log_of) {
  const ec_tensor *self = ec_arg_tensor(c, SELF);
  ec_tensor *out = ec_arg_tensor(c, OUT);
  size_t dim, bytes;
  EC_TRY(ec_call_check_dtype(c, SELF, EC_SET_FLOATING));
  EC_TRY(ec_call_check_same_dtype(c, OUT, SELF));
  if (ec_arg_bool(c, HALF_TO_FLOAT))
    return ec_call_fail(c, HALF_TO_FLOAT, "true, expected false: supported only on GPUs");
  EC_TRY(ec_call_wrap_dim(c, ec_arg_int(c, DIM), self->rank, &dim));
  EC_TRY(ec_call_resize(c, OUT, self->rank, self->sizes));
  if (self->numel == 0) return EC_OK;
  softmax s = {.dtype = ec_tensor_dtype(self), .n = 1, .step = 1, .out_step = 1,
               .log_of = log_of, .zero_rows = c->zero_rows, .reference = c->reference};
  int64_t sizes[EC_MAX_RANK];
  for (size_t d = 0; d < self->rank; d++) sizes[d] = d == dim ? 1 : self->sizes[d];
  if (self->rank) {
    s.n = (size_t)self->sizes[dim];
    s.step = self->strides[dim];
    s.out_step = out->strides[dim];
  }
  ec_iter it;
  ec_iter_init(&it, self->rank, sizes);
  size_t item = ec_dtype_size(s.dtype);
  ec_iter_add(&it, out->data, item, out->rank, sizes, out->strides);
  ec_iter_add(&it, self->data, item, self->rank, sizes, self->strides);
  (void)ec_iter_start(&it); /* there are elements */
  it.unit = is_adjacent(&s, &it) ? SOFTMAX_ROWS : 1;
  size_t pieces = ec_iter_pieces(c, &it, s.n * SOFTMAX_COST);
  if (ec_mul_size(s.n, SOFTMAX_ROWS * sizeof(double), &s.room) &&
      ec_mul_size(s.room, pieces, &bytes))
    s.buffer = ec_arena_alloc(c->scratch, bytes, EC_ALIGN);
  if (!s.buffer) return ec_fail(c->err, EC_MEMORY_ALLOCATION_FAILED, "no memory for a row");
  ec_iter_run(c, &it, pieces, run_piece, &s);
  return EC_OK;
}

ec_status ec_op_softmax_out(ec_call *c) { return run_softmax(c, false); }

ec_status ec_op_log_softmax_out(ec_call *c) { return run_softmax(c, true); }
