/* tril_indices and triu_indices: the positions of a matrix's triangle, in row-major order. */
#include <inttypes.h>

#include "core/checked.h"
#include "kernels/copy.h"

enum { BLOCK = 256 };

/* Columns [0, row + offset] of each row, or [row + offset, cols) of an upper triangle. `offset`
 * lies in [-rows, cols]. */
typedef struct triangle {
  int64_t rows, cols, offset;
  bool upper;
} triangle;

static int64_t first_column(const triangle *t, int64_t row) {
  return t->upper ? ec_max_i64(0, row + t->offset) : 0;
}

static int64_t end_column(const triangle *t, int64_t row) {
  return t->upper ? t->cols : ec_min_i64(t->cols, row + t->offset + 1);
}

/* Counts the elements on and below the diagonal `offset`; no sum exceeds rows * cols. */
static int64_t count_lower(int64_t rows, int64_t cols, int64_t offset) {
  const int64_t lines = rows - ec_max_i64(0, -offset), least = ec_max_i64(1, offset + 1);
  if (lines <= 0 || cols == 0) return 0;
  const int64_t growing = ec_min_i64(lines, ec_max_i64(0, cols - least + 1));
  const uint64_t steps = (uint64_t)growing * (uint64_t)(growing > 0 ? growing - 1 : 0) / 2;
  return growing * least + (int64_t)steps + (lines - growing) * cols;
}

static void fill_indices(ec_tensor *out, const triangle *t, int64_t n) {
  const ec_cast_fn cast = ec_cast(ec_tensor_dtype(out), EC_INT64);
  const int64_t item = (int64_t)ec_dtype_size(ec_tensor_dtype(out));
  const int64_t step = out->strides[1] * item;
  char *to = out->data, *second = to + out->strides[0] * item;
  int64_t rows[BLOCK], cols[BLOCK], row = t->upper ? 0 : ec_max_i64(0, -t->offset);
  int64_t col = first_column(t, row);
  for (int64_t i = 0; i < n; i += BLOCK) {
    const int64_t many = ec_min_i64(n - i, BLOCK);
    for (int64_t k = 0; k < many; k++) {
      rows[k] = row;
      cols[k] = col++;
      if (col >= end_column(t, row)) col = first_column(t, ++row);
    }
    cast(many, to + i * step, step, (char *)rows, sizeof *rows);
    cast(many, second + i * step, step, (char *)cols, sizeof *cols);
  }
}

static ec_status triangle_indices(ec_call *c, bool upper) {
  triangle t = {ec_arg_int(c, 0), ec_arg_int(c, 1), ec_arg_int(c, 2), upper};
  int64_t all;
  EC_TRY(ec_call_check_dtype(c, 3, EC_BIT(EC_INT32) | EC_BIT(EC_INT64)));
  if (t.rows < 0) return ec_call_fail(c, 0, "%" PRId64 ", expected at least 0", t.rows);
  if (t.cols < 0) return ec_call_fail(c, 1, "%" PRId64 ", expected at least 0", t.cols);
  if (!ec_mul_i64(t.rows, t.cols, &all) || t.rows > INT64_MAX / 4 || t.cols > INT64_MAX / 4)
    return ec_fail(c->err, EC_INVALID_ARGUMENT, "%" PRId64 " by %" PRId64 " is too large", t.rows,
                   t.cols);
  t.offset = ec_max_i64(-t.rows, ec_min_i64(t.offset, t.cols));
  const int64_t lower = count_lower(t.rows, t.cols, upper ? t.offset - 1 : t.offset);
  const int64_t sizes[] = {2, upper ? all - lower : lower};
  EC_TRY(ec_call_resize(c, 3, 2, sizes));
  fill_indices(ec_arg_tensor(c, 3), &t, sizes[1]);
  return EC_OK;
}

ec_status ec_op_tril_indices_out(ec_call *c) { return triangle_indices(c, false); }
ec_status ec_op_triu_indices_out(ec_call *c) { return triangle_indices(c, true); }
