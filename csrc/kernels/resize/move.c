/* Views of the tensors, and copies from listed positions. */
#include <inttypes.h>
#include <string.h>

#include "core/checked.h"
#include "kernels/resize/resize.h"

#define EC_TEMPLATE "kernels/resize/move.tmpl.h"
#include "core/foreach/item_size.h"
#undef EC_TEMPLATE

typedef void (*row_fn)(const int64_t *at, int64_t n, char *to, int64_t to_step, const char *from,
                       int64_t from_step);

/* Returns the tensor's memory in EC_RESIZE_RANK dimensions. */
static ec_view spread_dims(const ec_tensor *t, size_t axes) {
  ec_view flat = ec_view_of(t), v = {.data = t->data, .dtype = flat.dtype};
  size_t lead = t->rank - axes, gap = EC_RESIZE_AXES - axes;
  v.rank = EC_RESIZE_RANK;
  for (size_t d = 0; d < EC_RESIZE_RANK; d++) {
    /* wraps around for missing dimensions */
    size_t from = d < 2 ? d + lead - 2 : d - 2 - gap + lead;
    bool missing = d < 2 ? d + lead < 2 : d < 2 + gap;
    v.sizes[d] = missing ? 1 : flat.sizes[from];
    v.strides[d] = missing ? 0 : flat.strides[from];
  }
  return v;
}

ec_status ec_resize_input(ec_call *c, size_t out, size_t axes, bool batched, ec_resize *r) {
  const ec_tensor *input = ec_arg_tensor(c, 0);
  EC_TRY(ec_call_check_rank(c, 0, axes + (batched ? 2 : 1), axes + 2));
  EC_TRY(ec_call_check_same_dtype(c, out, 0));
  r->batched = input->rank == axes + 2;
  for (size_t d = r->batched; d < input->rank; d++)
    if (input->sizes[d] == 0) {
      char text[EC_SHAPE_TEXT];
      return ec_call_fail(c, 0, "shape %s, expected no 0 except for the batch",
                          ec_shape_text(input->sizes, input->rank, text, sizeof text));
    }
  r->axes = axes;
  r->in = spread_dims(input, axes);
  for (size_t d = 2; d < EC_RESIZE_RANK; d++) r->axis[d].in = r->axis[d].out = r->in.sizes[d];
  return EC_OK;
}

ec_status ec_resize_output(ec_call *c, size_t out, ec_resize *r) {
  int64_t sizes[EC_RESIZE_RANK];
  size_t rank = 0;
  for (size_t d = r->batched ? 0 : 1; d < 2; d++) sizes[rank++] = r->in.sizes[d];
  for (size_t d = EC_RESIZE_RANK - r->axes; d < EC_RESIZE_RANK; d++) sizes[rank++] = r->axis[d].out;
  EC_TRY(ec_call_resize(c, out, rank, sizes));
  r->to = spread_dims(ec_arg_tensor(c, out), r->axes);
  return EC_OK;
}

ec_status ec_resize_positions(ec_call *c, ec_axis *a) {
  a->width = 1;
  return ec_call_scratch(c, (size_t)a->out, sizeof *a->at, &a->at);
}

/* A part of the two tensors: offsets of its rows are added to the pointers. */
typedef struct rows {
  row_fn fn;
  int64_t item, inner; /* bytes of an element; adjacent channels, else 1 */
} rows;

static void move_plane(const ec_resize *r, const rows *part, char *to, const char *from) {
  const ec_axis *h = &r->axis[3], *w = &r->axis[4];
  const int64_t *is = r->in.strides, *os = r->to.strides;
  for (int64_t y = 0; y < h->out; y++) {
    char *d = to + y * os[3] * part->item;
    const char *s = from + h->at[y] * is[3] * part->item;
    if (y && h->at[y] == h->at[y - 1] && os[4] == part->inner) { /* repeats the previous row */
      memmove(d, d - os[3] * part->item, (size_t)(w->out * part->inner * part->item));
    } else if (part->inner == 1) {
      part->fn(w->at, w->out, d, os[4], s, is[4]);
    } else {
      for (int64_t x = 0; x < w->out; x++)
        memmove(d + x * os[4] * part->item, s + w->at[x] * is[4] * part->item,
               (size_t)(part->inner * part->item));
    }
  }
}

/* True if the outputs of the axis are its inputs, each of them twice. */
static bool is_doubled(const ec_axis *a) {
  for (int64_t o = 0; o < a->out; o++)
    if (a->at[o] != o / 2) return false;
  return a->out % 2 == 0;
}

void ec_resize_move(const ec_resize *r) {
  static const row_fn moves[] = {move_row_1, move_row_2, move_row_4, move_row_8, move_row_16};
  static const row_fn doubles[] = {double_row_1, double_row_2, double_row_4, double_row_8,
                                   double_row_16};
  const int64_t *is = r->in.strides, *os = r->to.strides;
  const bool dense = is[4] == 1 && os[4] == 1;
  const row_fn *fns = dense && is_doubled(&r->axis[4]) ? doubles : moves;
  size_t item = ec_dtype_size(r->in.dtype);
  int64_t channels = r->in.sizes[1], bytes = (int64_t)item;
  bool side_by_side = channels > 1 && is[1] == 1 && os[1] == 1;
  rows part = {fns[__builtin_ctzl(item)], bytes, side_by_side ? channels : 1};
  for (int64_t n = 0; n < r->in.sizes[0]; n++)
    for (int64_t k = 0; k < channels; k += part.inner)
      for (int64_t z = 0; z < r->axis[2].out; z++)
        move_plane(r, &part, r->to.data + (n * os[0] + k * os[1] + z * os[2]) * bytes,
                   r->in.data + (n * is[0] + k * is[1] + r->axis[2].at[z] * is[2]) * bytes);
}
