/* fast_hadamard_transform: each row times a Hadamard matrix, whose elements are 1 and -1. For 2^k
 * numbers it is Sylvester's matrix divided by the square root of 2^k; for 28 * 2^k numbers it is
 * the Kronecker product of a matrix of order 28, as it is, with the former. */
#include <inttypes.h>
#include <string.h>

#include "core/checked.h"
#include "core/simd.h"
#include "core/template.h"
#include "kernels/copy.h"

enum { ORDER = 28, CIRCLE = 7, BLOCKS = ORDER / CIRCLE, PIECE = 1 << 14, PIECES = 4 };

/* The matrix consists of circulant blocks: the first row of each. */
static const char first_rows[BLOCKS][BLOCKS][CIRCLE + 1] = {
    {"+------", "++----+", "+-+--+-", "+--++--"},
    {"--++++-", "+------", "-++--++", "+-+--+-"},
    {"-+-++-+", "+--++--", "+------", "--++++-"},
    {"-++--++", "-+-++-+", "++----+", "+------"},
};

static inline float get_sign(int row, int col) {
  const char *first = first_rows[row / CIRCLE][col / CIRCLE];
  return first[(col % CIRCLE - row % CIRCLE + CIRCLE) % CIRCLE] == '+' ? 1 : -1;
}

#define EC_TEMPLATE "kernels/llm/hadamard.tmpl.h"
#include "core/foreach/floating.h"
#undef EC_TEMPLATE

typedef void (*hadamard_fn)(const char *from, int64_t n, int64_t part, char *to, void *buffer);
static const hadamard_fn loops[EC_DTYPE_COUNT] = {EC_ROWS_FLOATING(hadamard)};

enum { MAT, OUT };

typedef struct hadamard {
  ec_dtype dtype;
  int64_t rows, n, part, pieces;
  const char *from;
  char *to, *buffer;
  size_t room; /* bytes of a piece's buffer */
} hadamard;

static void run_rows(void *user, size_t begin, size_t end) {
  const hadamard *h = user;
  const int64_t size = h->n * (int64_t)ec_dtype_size(h->dtype);
  for (size_t i = begin; i < end; i++) {
    const int64_t last = ec_share(h->rows, (int64_t)i + 1, h->pieces);
    for (int64_t r = ec_share(h->rows, (int64_t)i, h->pieces); r < last; r++)
      loops[h->dtype](h->from + r * size, h->n, h->part, h->to + r * size,
                      h->buffer + i * h->room);
  }
}

/* Returns the power of two that divides a row into one block or ORDER blocks; 0 for other sizes. */
static int64_t find_part(int64_t n) {
  const int64_t part = n % ORDER ? n : n / ORDER;
  return part > 0 && (part & (part - 1)) == 0 ? part : 0;
}

static ec_status start_rows(ec_call *c, hadamard *h) {
  const int64_t most = c->threads ? (int64_t)ec_threads_count(c->threads) * PIECES : 1;
  h->pieces = ec_max_i64(1, ec_min_i64(ec_min_i64(most, h->rows), h->rows * h->n / PIECE));
  h->room = (size_t)h->n * 2 * sizeof(double);
  return ec_call_scratch(c, (size_t)h->pieces, h->room, &h->buffer);
}

ec_status ec_op_fast_hadamard_transform_out(ec_call *c) {
  const ec_tensor *mat = ec_arg_tensor(c, MAT);
  ec_tensor *out = ec_arg_tensor(c, OUT);
  hadamard h = {.dtype = ec_tensor_dtype(mat)};
  void *from;
  EC_TRY(ec_call_check_dtype(c, MAT, EC_SET_FLOATING));
  EC_TRY(ec_call_check_same_dtype(c, OUT, MAT));
  EC_TRY(ec_call_check_rank(c, MAT, 1, EC_MAX_RANK));
  h.n = mat->sizes[mat->rank - 1];
  h.part = find_part(h.n);
  if (!h.part)
    return ec_call_fail(c, MAT, "rows of %" PRId64 " elements, expected 2^k or 28 * 2^k", h.n);
  EC_TRY(ec_call_packed(c, mat, h.dtype, &from));
  EC_TRY(ec_call_resize(c, OUT, mat->rank, mat->sizes));
  if (!out->numel) return EC_OK;
  ec_view to = ec_view_of(out), rows = to;
  const bool direct = ec_tensor_is_contiguous(out);
  if (!direct) {
    uint8_t row_major[EC_MAX_RANK];
    for (size_t d = 0; d < out->rank; d++) row_major[d] = (uint8_t)d;
    ec_strides(out->sizes, row_major, out->rank, rows.strides);
    EC_TRY(ec_call_scratch(c, (size_t)out->numel, ec_dtype_size(h.dtype), &rows.data));
  }
  h.rows = out->numel / h.n;
  h.from = from;
  h.to = rows.data;
  EC_TRY(start_rows(c, &h));
  ec_parallel_for(c, (size_t)h.pieces, 1, run_rows, &h);
  if (!direct) ec_copy_view(c, &to, &rows);
  return EC_OK;
}
