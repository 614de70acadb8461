/* topk: values and positions of the k largest or smallest along a dimension, best first. */
#include <inttypes.h>
#include <string.h>

#include "core/checked.h"
#include "core/template.h"
#include "kernels/index/index.h"

typedef struct topk_row {
  const char *x;
  char *values, *indices;
  int64_t n, k, x_step, value_step, index_step; /* steps in bytes */
  bool largest, sorted;
  void *entries; /* of topk_room bytes */
} topk_row;

enum {
  TOPK_ENTRY = 16, /* bytes of an element and its position */
  TOPK_PART = 16,  /* entries that are sorted by insertion */
  TOPK_STACK = 128 /* parts that wait: at most topk_depth of 2^63 */
};

/* Entries from `first` to `end` that are to be sorted, by `depth` partitions at most. */
typedef struct topk_part {
  int64_t first, end, depth;
} topk_part;

/* Returns the number of partitions after which a heap takes over, as in libstdc++. */
static int64_t topk_depth(int64_t n) {
  int64_t depth = 0;
  for (; n > 1; n /= 2) depth += 2;
  return depth;
}

/* Returns true if k of n elements are few enough for a heap of k, as in eager. */
static bool topk_is_scan(int64_t k, int64_t n) { return k <= n / 64; }

#define EC_TEMPLATE "kernels/index/topk.tmpl.h"
#include "core/foreach/real.h"
#undef EC_TEMPLATE

typedef void (*row_fn)(const topk_row *row);
static const row_fn rows[EC_DTYPE_COUNT] = {EC_ROWS_REAL(topk_row)};

/* A run: an iterator over values, indices and the input yields the rows. */
typedef struct topk_run {
  topk_row row; /* entries of the first piece; those of the other pieces follow */
  size_t room;  /* bytes of the entries of a piece */
  row_fn fn;
} topk_run;

static void run_piece(void *user, ec_iter *it, size_t piece) {
  const topk_run *r = user;
  topk_row row = r->row;
  row.entries = (char *)row.entries + piece * r->room;
  do {
    for (int64_t i = 0; i < it->count; i++) {
      row.values = it->at[0] + i * it->step[0];
      row.indices = it->at[1] + i * it->step[1];
      row.x = it->at[2] + i * it->step[2];
      r->fn(&row);
    }
  } while (ec_iter_next(it));
}

static ec_status run_topk(ec_call *c, const ec_tensor *in, const ec_tensor *values,
                          const ec_tensor *indices, size_t dim, topk_row row) {
  int64_t sizes[EC_MAX_RANK];
  size_t item = ec_dtype_size(ec_tensor_dtype(in)), rank = in->rank;
  topk_run r = {row, 0, rows[in->dtype]};
  ec_iter it;
  memcpy(sizes, in->sizes, sizeof sizes);
  if (rank) {
    sizes[dim] = 1; /* the iterator walks the starts of rows */
    r.row.x_step = in->strides[dim] * (int64_t)item;
    r.row.value_step = values->strides[dim] * (int64_t)item;
    r.row.index_step = indices->strides[dim] * (int64_t)sizeof(int64_t);
  }
  ec_iter_init(&it, rank, sizes);
  ec_iter_add(&it, values->data, item, rank, sizes, values->strides);
  ec_iter_add(&it, indices->data, sizeof(int64_t), rank, sizes, indices->strides);
  ec_iter_add(&it, in->data, item, rank, sizes, in->strides);
  if (!ec_iter_start(&it)) return EC_OK;
  it.unit = 1;
  enum { COST = 4 }; /* of an element */
  size_t pieces = ec_iter_pieces(c, &it, COST * (size_t)row.n);
  size_t entries = (size_t)(topk_is_scan(row.k, row.n) ? row.k : row.n);
  if (!ec_mul_size(entries, TOPK_ENTRY, &r.room))
    return ec_call_fail(c, 1, "%" PRId64 ", too many for the threads' memory", row.k);
  EC_TRY(ec_call_scratch(c, pieces, r.room, &r.row.entries));
  ec_iter_run(c, &it, pieces, run_piece, &r);
  return EC_OK;
}

ec_status ec_op_topk_values(ec_call *c) {
  ec_tensor in = *ec_arg_tensor(c, 0);
  int64_t sizes[EC_MAX_RANK], k = ec_arg_int(c, 1);
  size_t dim;
  EC_TRY(ec_call_check_dtype(c, 0, EC_SET_REAL));
  EC_TRY(ec_call_wrap_dim(c, ec_arg_int(c, 2), in.rank, &dim));
  int64_t n = in.rank ? in.sizes[dim] : 1;
  if (k < 0 || k > n)
    return ec_call_fail(c, 1, "%" PRId64 ", but dimension %zu has %" PRId64 " elements", k, dim, n);
  EC_TRY(ec_call_check_dtype(c, 5, EC_BIT(in.dtype)));
  EC_TRY(ec_call_check_dtype(c, 6, EC_BIT(EC_INT64)));
  memcpy(sizes, in.sizes, sizeof sizes);
  if (in.rank) sizes[dim] = k;
  EC_TRY(ec_call_resize(c, 5, in.rank, sizes));
  EC_TRY(ec_call_resize(c, 6, in.rank, sizes));
  if (ec_arg_tensor(c, 5)->numel == 0) return EC_OK;
  topk_row row = {.n = n, .k = k, .largest = ec_arg_bool(c, 3), .sorted = ec_arg_bool(c, 4)};
  in.data = ec_arg_tensor(c, 0)->data;
  return run_topk(c, &in, ec_arg_tensor(c, 5), ec_arg_tensor(c, 6), dim, row);
}
