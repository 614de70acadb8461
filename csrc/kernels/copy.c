/* Strided copies: merged rows through the cast table, and tiles if one layout is the transpose of
 * the other, so that both sides use whole cache lines. */
#include "kernels/copy.h"

#include <string.h>

#include "kernels/record.h"

void ec_cast_scalar(ec_dtype dtype, ec_scalar s, void *element) {
  ec_dtype from = s.kind == EC_KIND_DOUBLE ? EC_FLOAT64
                  : s.kind == EC_KIND_BOOL ? EC_BOOL
                                           : EC_INT64;
  ec_cast(dtype, from)(1, element, 0, (const char *)&s.as, 0);
}

ec_view ec_view_of(const ec_tensor *t) {
  ec_view v = {.data = t->data, .dtype = ec_tensor_dtype(t), .rank = t->rank};
  memcpy(v.sizes, t->sizes, t->rank * sizeof *v.sizes);
  memcpy(v.strides, t->strides, t->rank * sizeof *v.strides);
  return v;
}

enum { SHORT_ROW = 64 }; /* bytes */

#define EC_TEMPLATE "kernels/move.tmpl.h"
#include "core/foreach/item_size.h"
#undef EC_TEMPLATE

typedef void (*tile_fn)(char *dst, int64_t dst_row, const char *src, int64_t src_row, int64_t rows,
                        int64_t columns);

void ec_move(size_t item, int64_t n, char *dst, int64_t dst_step, const char *src,
             int64_t src_step) {
  if (dst_step == (int64_t)item && src_step == (int64_t)item) {
    memmove(dst, src, (size_t)n * item);
    return;
  }
  switch (item) {
  case 1: move_1(n, dst, dst_step, src, src_step); break;
  case 2: move_2(n, dst, dst_step, src, src_step); break;
  case 4: move_4(n, dst, dst_step, src, src_step); break;
  case 8: move_8(n, dst, dst_step, src, src_step); break;
  default: move_16(n, dst, dst_step, src, src_step);
  }
}

/* Moves `rows` rows of `bytes` bytes. Callers pass constants, so that each row is one or two
 * moves. */
static inline __attribute__((always_inline)) void move_rows(const ec_iter *it, int64_t rows,
                                                            size_t bytes) {
  char *dst = it->at[0], row[SHORT_ROW];
  const char *src = it->at[1];
  const int64_t to = it->strides[0][1], from = it->strides[1][1];
  for (int64_t r = 0; r < rows; r++, dst += to, src += from) {
    memcpy(row, src, bytes);
    memcpy(dst, row, bytes);
  }
}

/* True if the inner loop is contiguous but so short that calls would dominate the time. */
static bool has_short_rows(const ec_iter *it, size_t item) {
  return it->rank > 1 && it->step[0] == (int64_t)item && it->step[1] == (int64_t)item &&
         (size_t)it->sizes[0] <= SHORT_ROW / item;
}

/* Walks the dimensions from 2 on; each step moves all rows of dimension 1. */
static void move_short_rows(ec_iter *it, size_t item) {
  const size_t bytes = (size_t)it->sizes[0] * item;
  const int64_t rows = it->sizes[1];
  it->sizes[1] = 1;
  do {
    switch (bytes) {
    case 4: move_rows(it, rows, 4); break;
    case 8: move_rows(it, rows, 8); break;
    case 12: move_rows(it, rows, 12); break;
    case 16: move_rows(it, rows, 16); break;
    case 32: move_rows(it, rows, 32); break;
    case 64: move_rows(it, rows, 64); break;
    default: move_rows(it, rows, bytes);
    }
  } while (ec_iter_next(it));
}

/* Returns the dimension in which the source is contiguous while the inner one is not; 0: none. */
static size_t transposed_dim(const ec_iter *it, size_t item) {
  if (it->rank < 2 || it->step[0] != (int64_t)item || it->step[1] == (int64_t)item) return 0;
  if (it->sizes[0] < 4) return 0;
  for (size_t d = 1; d < it->rank; d++)
    if (it->strides[1][d] == (int64_t)item && it->sizes[d] >= 4) return d;
  return 0;
}

/* Walks the dimensions other than 0 and `d`; each step moves a whole matrix in tiles. */
static void move_transposed(ec_iter *it, size_t d, size_t item) {
  tile_fn fn = item == 1   ? transpose_1
               : item == 2 ? transpose_2
               : item == 4 ? transpose_4
               : item == 8 ? transpose_8
                           : transpose_16;
  int64_t rows = it->sizes[d], columns = it->sizes[0];
  int64_t dst_row = it->strides[0][d], src_column = it->strides[1][0];
  it->sizes[d] = 1;
  do fn(it->at[0], dst_row, it->at[1], src_column, rows, columns);
  while (ec_iter_next(it));
}

/* Makes dimension 1 the inner one if dimension 0 is too short for a loop and dimension 1 is
 * longer. */
static void lengthen_inner(ec_iter *it) {
  enum { SHORT_DIM = 8 };
  if (it->rank < 2 || it->sizes[0] >= SHORT_DIM || it->sizes[1] <= it->sizes[0]) return;
  it->count = it->sizes[1];
  it->sizes[1] = it->sizes[0];
  it->sizes[0] = it->count;
  for (size_t k = 0; k < it->operands; k++) {
    it->step[k] = it->strides[k][1];
    it->strides[k][1] = it->strides[k][0];
    it->strides[k][0] = it->step[k];
  }
}

/* A copy: operand 0 is the target, 1 the source. */
typedef struct copy {
  size_t item;     /* bytes of a moved element */
  ec_cast_fn cast; /* NULL: elements are moved */
} copy;

static void copy_piece(void *user, ec_iter *it, size_t piece) {
  const copy *w = user;
  (void)piece;
  size_t d = w->cast ? 0 : transposed_dim(it, w->item);
  if (d) {
    move_transposed(it, d, w->item);
    return;
  }
  if (!w->cast && has_short_rows(it, w->item)) {
    move_short_rows(it, w->item);
    return;
  }
  lengthen_inner(it);
  do {
    if (w->cast) w->cast(it->count, it->at[0], it->step[0], it->at[1], it->step[1]);
    else ec_move(w->item, it->count, it->at[0], it->step[0], it->at[1], it->step[1]);
  } while (ec_iter_next(it));
}

/* ---- records ----------------------------------------------------------------------------- */

typedef struct copy_step {
  ec_recorded_loop step;
  ec_iter it;
  copy w;
} copy_step;

typedef struct move_step {
  ec_recorded_loop step;
  char *to;
  const char *from;
  size_t bytes; /* of a row */
  int64_t rows, to_next, from_next; /* number of rows, and the distances between them */
} move_step;

static bool run_copy(const ec_recorded_loop *step) {
  const copy_step *s = (const copy_step *)step;
  ec_iter it = s->it;
  copy_piece((void *)(uintptr_t)&s->w, &it, 0);
  return true;
}

static bool run_move(const ec_recorded_loop *step) {
  const move_step *s = (const move_step *)step;
  char *to = s->to;
  const char *from = s->from;
  for (int64_t i = 0; i < s->rows; i++, to += s->to_next, from += s->from_next)
    memmove(to, from, s->bytes);
  return true;
}

static int64_t count_elements(const ec_iter *it) {
  int64_t count = 1;
  for (size_t d = 0; d < it->rank; d++) count *= it->sizes[d];
  return count;
}

/* True if a copy would move all elements to where they are. */
static bool is_in_place(const ec_iter *it, const copy *w) {
  if (w->cast || it->at[0] != it->at[1]) return false;
  for (size_t d = 0; d < it->rank; d++)
    if (it->strides[0][d] != it->strides[1][d]) return false;
  return true;
}

/* True for whole rows of contiguous elements. */
static bool has_rows(const ec_iter *it, const copy *w) {
  const int64_t item = (int64_t)w->item;
  return !w->cast && it->step[0] == item && it->step[1] == item &&
         (it->rank <= 1 || (it->rank == 2 && it->sizes[0] * item >= SHORT_ROW));
}

static void record_copy(ec_record *record, const ec_iter *it, const copy *w, size_t pieces) {
  const int64_t count = count_elements(it);
  if (pieces > 1) {
    ec_record_refuse(record);
  } else if (has_rows(it, w)) {
    move_step *s = ec_record_add(record, run_move, sizeof *s, count);
    if (!s) return;
    s->to = it->at[0];
    s->from = it->at[1];
    s->rows = is_in_place(it, w) ? 0 : it->rank == 2 ? it->sizes[1] : 1;
    s->bytes = (size_t)(it->rank ? it->sizes[0] : 1) * w->item;
    if (it->rank < 2) return;
    s->to_next = it->strides[0][1];
    s->from_next = it->strides[1][1];
  } else {
    copy_step *s = ec_record_add(record, run_copy, sizeof *s, count);
    if (!s) return;
    s->it = *it;
    s->w = *w;
  }
}

static void run_copy_view(const ec_call *c, const ec_view *dst, const ec_view *src,
                          ec_record *record) {
  ec_iter it;
  copy w = {.item = ec_dtype_size(dst->dtype)};
  if (dst->dtype != src->dtype) w.cast = ec_cast(dst->dtype, src->dtype);
  ec_iter_init(&it, dst->rank, dst->sizes);
  ec_iter_add(&it, dst->data, w.item, dst->rank, dst->sizes, dst->strides);
  ec_iter_add(&it, src->data, ec_dtype_size(src->dtype), src->rank, src->sizes, src->strides);
  if (!ec_iter_start(&it)) return;
  const bool done = is_in_place(&it, &w);
  const size_t pieces = done ? 1 : ec_iter_pieces(c, &it, 1);
  if (record) record_copy(record, &it, &w, pieces);
  if (!done) ec_iter_run(c, &it, pieces, copy_piece, &w);
}

void ec_copy_view(const ec_call *c, const ec_view *dst, const ec_view *src) {
  run_copy_view(c, dst, src, NULL);
}

void ec_copy_to_out(const ec_call *c, const ec_view *dst, const ec_view *src) {
  run_copy_view(c, dst, src, ec_record_of(c));
}

void ec_copy_cast(const ec_call *c, ec_tensor *dst, const ec_tensor *src) {
  if (dst->dtype == src->dtype && dst->data == src->data && ec_tensor_same_sizes(dst, src) &&
      ec_tensor_same_layout(dst, src))
    return;
  ec_view to = ec_view_of(dst), from = ec_view_of(src);
  ec_copy_view(c, &to, &from);
}

void ec_fill_view(const ec_call *c, const ec_view *to, const void *element) {
  ec_view from = {.data = (char *)(uintptr_t)element, .dtype = to->dtype};
  ec_copy_view(c, to, &from);
}

void ec_fill_tensor(const ec_call *c, ec_tensor *t, const void *element) {
  ec_view to = {.data = t->data, .dtype = ec_tensor_dtype(t), .rank = 1, .sizes = {t->numel},
                .strides = {1}}; /* dense in any layout */
  ec_fill_view(c, &to, element);
}

ec_status ec_call_packed(ec_call *c, const ec_tensor *t, ec_dtype dtype, void **out) {
  ec_view from = ec_view_of(t), to = from;
  uint8_t row_major[EC_MAX_RANK];
  *out = t->data;
  if (ec_tensor_is_contiguous(t) && ec_tensor_dtype(t) == dtype) return EC_OK;
  EC_TRY(ec_call_scratch(c, (size_t)t->numel, ec_dtype_size(dtype), out));
  for (size_t d = 0; d < t->rank; d++) row_major[d] = (uint8_t)d;
  ec_strides(t->sizes, row_major, t->rank, to.strides);
  to.data = *out;
  to.dtype = dtype;
  if (t->numel) ec_copy_view(c, &to, &from);
  return EC_OK;
}
