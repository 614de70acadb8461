/* Strided copies: merged rows through the cast table, and tiles where two layouts are each
 * other's transpose, so that both sides use whole cache lines. */
#include "kernels/copy.h"

#include <string.h>

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

#define EC_TEMPLATE "kernels/move.tmpl.h"
#include "core/foreach/item_size.h"
#undef EC_TEMPLATE

typedef void (*tile_fn)(char *dst, int64_t dst_row, const char *src, int64_t src_row, int64_t rows,
                        int64_t columns);

static void move_n(size_t item, int64_t n, char *dst, int64_t dst_step, const char *src,
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

/* The dimension in which the source is contiguous while the inner one is not; 0: none. */
static size_t transposed_dim(const ec_iter *it, size_t item) {
  if (it->rank < 2 || it->step[0] != (int64_t)item || it->step[1] == (int64_t)item) return 0;
  if (it->sizes[0] < 4) return 0;
  for (size_t d = 1; d < it->rank; d++)
    if (it->strides[1][d] == (int64_t)item && it->sizes[d] >= 4) return d;
  return 0;
}

/* Walks the dimensions other than 0 and `d`; each step moves a whole matrix by tiles. */
static void move_transposed(ec_iter *it, size_t d, size_t item) {
  tile_fn fn = item == 1   ? transpose_1
               : item == 2 ? transpose_2
               : item == 4 ? transpose_4
               : item == 8 ? transpose_8
                           : transpose_16;
  int64_t rows = it->sizes[d], columns = it->sizes[0];
  int64_t dst_row = it->strides[0][d], src_column = it->strides[1][0];
  it->sizes[d] = 1;
  for (bool more = true; more; more = ec_iter_next(it))
    fn(it->at[0], dst_row, it->at[1], src_column, rows, columns);
}

void ec_copy_view(const ec_view *dst, const ec_view *src) {
  ec_iter it;
  size_t item = ec_dtype_size(dst->dtype);
  ec_iter_init(&it, dst->rank, dst->sizes);
  ec_iter_add(&it, dst->data, item, dst->rank, dst->sizes, dst->strides);
  ec_iter_add(&it, src->data, ec_dtype_size(src->dtype), src->rank, src->sizes, src->strides);
  bool more = ec_iter_start(&it);
  if (!more) return;
  if (dst->dtype != src->dtype) {
    ec_cast_fn cast = ec_cast(dst->dtype, src->dtype);
    for (; more; more = ec_iter_next(&it))
      cast(it.count, it.at[0], it.step[0], it.at[1], it.step[1]);
    return;
  }
  size_t d = transposed_dim(&it, item);
  if (d) {
    move_transposed(&it, d, item);
    return;
  }
  for (; more; more = ec_iter_next(&it))
    move_n(item, it.count, it.at[0], it.step[0], it.at[1], it.step[1]);
}

void ec_copy_cast(ec_tensor *dst, const ec_tensor *src) {
  if (dst->dtype == src->dtype && ec_tensor_same_sizes(dst, src) &&
      ec_tensor_same_layout(dst, src)) {
    if (dst->numel && dst->data != src->data)
      memmove(dst->data, src->data, ec_tensor_nbytes(dst));
    return;
  }
  ec_view to = ec_view_of(dst), from = ec_view_of(src);
  ec_copy_view(&to, &from);
}

void ec_fill_tensor(ec_tensor *t, const void *element) {
  size_t item = ec_dtype_size(ec_tensor_dtype(t));
  if (t->numel) move_n(item, t->numel, t->data, (int64_t)item, element, 0);
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
  if (t->numel) ec_copy_view(&to, &from);
  return EC_OK;
}
