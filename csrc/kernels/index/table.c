/* Blocks of elements at listed positions, and the loops that follow indices. */
#include <string.h>

#include "core/complex.h"
#include "core/template.h"
#include "kernels/index/index.h"

#define EC_TEMPLATE "kernels/index/move.tmpl.h"
#include "core/dtype/uint8.h"
#include "core/dtype/uint16.h"
#include "core/dtype/uint32.h"
#include "core/dtype/uint64.h"
#include "core/dtype/complex128.h"
#undef EC_TEMPLATE
#define EC_TEMPLATE "kernels/index/add.tmpl.h"
#include "core/foreach/all.h"
#undef EC_TEMPLATE

#define EC_TEMPLATE "kernels/index/divide.tmpl.h"
#include "core/foreach/real.h"
#include "core/foreach/complex.h"
#undef EC_TEMPLATE
#define EC_TEMPLATE "kernels/index/combine.tmpl.h"

#define EC_MFN(name) EC_FN(EC_PASTE(add, name))
#define EC_JOIN(x, y) ((EC_WRAP)(x) + (EC_WRAP)(y))
#define EC_IDENTITY 0
#include "core/foreach/all.h"
#undef EC_MFN
#undef EC_JOIN
#undef EC_IDENTITY

#define EC_MFN(name) EC_FN(EC_PASTE(mul, name))
#define EC_JOIN(x, y) ec_times((EC_WRAP)(x), (EC_WRAP)(y))
#define EC_IDENTITY 1
#include "core/foreach/all.h"
#undef EC_MFN
#undef EC_JOIN
#undef EC_IDENTITY

#define EC_MFN(name) EC_FN(EC_PASTE(max, name))
#define EC_JOIN(x, y) ((x) > (y) || IS_NAN(x) ? (x) : (y))
#define EC_IDENTITY EC_LOWEST
#include "core/foreach/realb.h"
#undef EC_MFN
#undef EC_JOIN
#undef EC_IDENTITY

#define EC_MFN(name) EC_FN(EC_PASTE(min, name))
#define EC_JOIN(x, y) ((x) < (y) || IS_NAN(x) ? (x) : (y))
#define EC_IDENTITY EC_HIGHEST
#include "core/foreach/realb.h"
#undef EC_TEMPLATE

typedef void (*table_fn)(int64_t positions, int64_t n, char *to, const int64_t *to_at,
                         int64_t to_step, const char *from, const int64_t *from_at,
                         int64_t from_step);
typedef int64_t (*pack_fn)(int64_t n, const uint8_t *mask, char *packed, int64_t most,
                           const char *strided, int64_t step);
typedef int64_t (*unpack_fn)(int64_t n, const uint8_t *mask, const char *packed, int64_t most,
                             char *strided, int64_t step);

/* Indexed by the logarithm of the element size. */
#define BY_WIDTH(fn) {fn##_uint8, fn##_uint16, fn##_uint32, fn##_uint64, fn##_complex128}
static const table_fn move_tables[] = BY_WIDTH(move_table);
static const ec_indexed_fn move_indexed[] = BY_WIDTH(move_indexed);
static const pack_fn packs[] = BY_WIDTH(pack);
static const unpack_fn unpacks[] = BY_WIDTH(unpack);
static const table_fn add_tables[EC_DTYPE_COUNT] = {EC_ROWS_ALL(add_table)};

typedef void (*identity_fn)(char *to);
typedef void (*divide_fn)(int64_t n, char *sums, const int64_t *counts);
static const struct {
  ec_indexed_fn indexed[EC_DTYPE_COUNT];
  identity_fn identity[EC_DTYPE_COUNT];
} combines[] = {
    [EC_COMBINE_ADD] = {{EC_ROWS_ALL(add_indexed)}, {EC_ROWS_ALL(add_identity)}},
    [EC_COMBINE_MUL] = {{EC_ROWS_ALL(mul_indexed)}, {EC_ROWS_ALL(mul_identity)}},
    [EC_COMBINE_MAX] = {{EC_ROWS_REALB(max_indexed)}, {EC_ROWS_REALB(max_identity)}},
    [EC_COMBINE_MIN] = {{EC_ROWS_REALB(min_indexed)}, {EC_ROWS_REALB(min_identity)}},
};
static const divide_fn divides[EC_DTYPE_COUNT] = {EC_ROWS_REAL(divide), EC_ROWS_COMPLEX(divide)};

static size_t log2_size(size_t item) { return (size_t)__builtin_ctzl(item); }

ec_indexed_fn ec_indexed_move(ec_dtype dtype) {
  return move_indexed[log2_size(ec_dtype_size(dtype))];
}
ec_indexed_fn ec_indexed_combine(ec_dtype dtype, ec_combine how) {
  return how == EC_COMBINE_MOVE ? ec_indexed_move(dtype) : combines[how].indexed[dtype];
}
void ec_combine_identity(ec_dtype dtype, ec_combine how, char *to) {
  combines[how].identity[dtype](to);
}

void ec_divide_by_counts(ec_tensor *sums, const int64_t *counts) {
  divides[sums->dtype](sums->numel, sums->data, counts);
}

int64_t ec_mask_pack(size_t item, int64_t n, const uint8_t *mask, char *packed, int64_t most,
                     const char *strided, int64_t step) {
  return packs[log2_size(item)](n, mask, packed, most, strided, step);
}

int64_t ec_mask_unpack(size_t item, int64_t n, const uint8_t *mask, const char *packed,
                       int64_t most, char *strided, int64_t step) {
  return unpacks[log2_size(item)](n, mask, packed, most, strided, step);
}

void ec_table_dim(ec_table *t, int64_t size, int64_t to_stride, int64_t from_stride) {
  t->sizes[t->rank] = size;
  t->to_strides[t->rank] = to_stride;
  t->from_strides[t->rank++] = from_stride;
}

static void move_rows(const ec_table *t, char *to, const char *from, size_t item, size_t bytes) {
  for (int64_t p = 0; p < t->n; p++)
    memmove(to + t->to[p] * (int64_t)item, from + t->from[p] * (int64_t)item, bytes);
}

/* A table with its memory. */
typedef struct table_run {
  const ec_table *table;
  char *to;
  const char *from;
  bool add;
} table_run;

static void run_block(void *user, ec_iter *it, size_t piece) {
  const table_run *r = user;
  const ec_table *t = r->table;
  const size_t item = ec_dtype_size(t->dtype);
  const table_fn fn = r->add ? add_tables[t->dtype] : move_tables[log2_size(item)];
  (void)piece;
  do {
    bool row = it->count > 1 && it->step[0] == (int64_t)item && it->step[1] == (int64_t)item;
    if (row && !r->add) {
      move_rows(t, it->at[0], it->at[1], item, (size_t)it->count * item);
    } else if (row) {
      fn(t->n, it->count, it->at[0], t->to, 1, it->at[1], t->from, 1);
    } else {
      for (int64_t i = 0; i < it->count; i++)
        fn(t->n, 1, it->at[0] + i * it->step[0], t->to, 0, it->at[1] + i * it->step[1], t->from,
           0);
    }
  } while (ec_iter_next(it));
}

static bool start_block(const table_run *r, ec_iter *it) {
  const ec_table *t = r->table;
  const size_t item = ec_dtype_size(t->dtype);
  ec_iter_init(it, t->rank, t->sizes);
  ec_iter_add(it, r->to, item, t->rank, t->sizes, t->to_strides);
  ec_iter_add(it, r->from, item, t->rank, t->sizes, t->from_strides);
  return ec_iter_start(it);
}

static void run_positions(void *user, size_t begin, size_t end) {
  table_run r = *(const table_run *)user;
  ec_table part = *r.table;
  ec_iter it;
  part.to += begin;
  part.from += begin;
  part.n = (int64_t)(end - begin);
  r.table = &part;
  if (start_block(&r, &it)) run_block(&r, &it, 0);
}

void ec_table_run(const ec_call *c, const ec_table *t, char *to, const char *from,
                  ec_table_how how) {
  enum { GRAIN = 1 << 16, WHOLE = 1 << 20 }; /* bytes of a piece; bytes of a loop worth threads */
  table_run r = {.table = t, .to = to, .from = from, .add = how == EC_TABLE_ADD};
  ec_iter it;
  if (t->n == 0 || !start_block(&r, &it)) return;
  if (how == EC_TABLE_DISTINCT) {
    size_t block = it.item;
    for (size_t d = 0; d < it.rank && block < WHOLE; d++) block *= (size_t)it.sizes[d];
    const size_t least = block * (size_t)t->n < WHOLE ? (size_t)t->n : GRAIN / block + 1;
    ec_parallel_for(c, (size_t)t->n, least, run_positions, &r);
  } else {
    ec_iter_run(c, &it, ec_iter_pieces(c, &it, (size_t)t->n), run_block, &r);
  }
}
