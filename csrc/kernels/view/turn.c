/* Elements in another order: flip, roll, pixel_shuffle, pixel_unshuffle. */
#include <inttypes.h>
#include <string.h>

#include "core/checked.h"
#include "kernels/view/region.h"

ec_status ec_op_flip_out(ec_call *c) {
  ec_region r = ec_region_of(ec_arg_tensor(c, 0));
  unsigned seen = 0;
  ec_ints dims;
  EC_TRY(ec_arg_ints(c, 1, &dims));
  for (size_t i = 0; i < dims.n; i++) {
    size_t d;
    EC_TRY(ec_call_wrap_dim(c, dims.v[i], r.rank, &d));
    if (seen >> d & 1u) return ec_call_fail(c, 1, "dimension %zu appears more than once", d);
    seen |= 1u << d;
    if (r.rank == 0 || r.sizes[d] == 0) continue;
    r.offset += (r.sizes[d] - 1) * r.strides[d];
    r.strides[d] = -r.strides[d];
  }
  return ec_region_to_out(c, &r, 2);
}

/* Reads the shift of each dimension, in [0, size). */
static ec_status read_shifts(ec_call *c, const ec_region *r, int64_t shift[EC_MAX_RANK]) {
  ec_ints shifts, dims;
  EC_TRY(ec_arg_ints(c, 1, &shifts));
  EC_TRY(ec_arg_ints(c, 2, &dims));
  if (shifts.n != dims.n || shifts.n == 0)
    return ec_call_fail(c, 1, "%zu shifts for %zu dimensions", shifts.n, dims.n);
  memset(shift, 0, EC_MAX_RANK * sizeof *shift);
  for (size_t i = 0; i < dims.n; i++) {
    size_t d;
    EC_TRY(ec_check_has_dims(c, 0));
    EC_TRY(ec_call_wrap_dim(c, dims.v[i], r->rank, &d));
    int64_t size = r->sizes[d];
    if (size == 0) continue;
    int64_t by = shifts.v[i] % size; /* by and shift[d] are below size: their sum fits */
    by = by < 0 ? by + size : by;
    shift[d] = by >= size - shift[d] ? by - (size - shift[d]) : by + shift[d];
  }
  return EC_OK;
}

/* Copies each combination of parts: a shifted dimension splits into two parts that trade places. */
static void copy_rolled(const ec_call *c, const ec_tensor *out, const ec_tensor *self,
                        const ec_region *r, const int64_t *shift) {
  size_t moved[EC_MAX_RANK], n = 0;
  ec_region to_all = ec_region_of(out);
  for (size_t d = 0; d < r->rank; d++)
    if (shift[d]) moved[n++] = d;
  for (uint32_t parts = 0; parts < 1u << n; parts++) {
    ec_region from = *r, to = to_all;
    for (size_t i = 0; i < n; i++) {
      size_t d = moved[i];
      int64_t front = r->sizes[d] - shift[d];
      bool tail = parts >> i & 1u;
      ec_region_slice(&from, d, tail ? front : 0, tail ? shift[d] : front, 1);
      ec_region_slice(&to, d, tail ? 0 : shift[d], tail ? shift[d] : front, 1);
    }
    ec_view dst = ec_region_view(&to, out), src = ec_region_view(&from, self);
    ec_copy_view(c, &dst, &src);
  }
}

/* Without dimensions, shifts the elements in row-major order. */
static ec_status roll_flat(ec_call *c, const ec_tensor *self, ec_tensor *out, const ec_region *r) {
  ec_ints shifts;
  EC_TRY(ec_arg_ints(c, 1, &shifts));
  if (shifts.n != 1) return ec_call_fail(c, 1, "%zu shifts, expected 1", shifts.n);
  int64_t numel = out->numel, shift = numel ? shifts.v[0] % numel : 0;
  if (shift < 0) shift += numel;
  ec_tensor flat[2], shaped = *out;
  for (int i = 0; i < 2; i++) {
    EC_TRY(ec_tensor_init(&flat[i], ec_tensor_dtype(out), 1, &numel, NULL, c->err));
    EC_TRY(ec_call_scratch(c, (size_t)numel, ec_dtype_size(ec_tensor_dtype(out)), &flat[i].data));
  }
  ec_region line = ec_region_of(&flat[0]), row_major = *r;
  for (size_t d = 0; d < shaped.rank; d++) shaped.dim_order[d] = (uint8_t)d;
  ec_strides(shaped.sizes, shaped.dim_order, shaped.rank, row_major.strides);
  ec_view to = ec_region_view(&row_major, &flat[0]), from = ec_region_view(r, self);
  ec_copy_view(c, &to, &from);
  copy_rolled(c, &flat[1], &flat[0], &line, &shift);
  to = ec_view_of(out);
  from = ec_region_view(&row_major, &flat[1]);
  ec_copy_view(c, &to, &from);
  return EC_OK;
}

ec_status ec_op_roll_out(ec_call *c) {
  const ec_tensor *self = ec_arg_tensor(c, 0);
  ec_tensor *out = ec_arg_tensor(c, 3);
  ec_region r = ec_region_of(self);
  int64_t shift[EC_MAX_RANK];
  bool flat = ec_arg_is_none(c, 2) || c->args[2]->count == 0;
  if (!flat) EC_TRY(read_shifts(c, &r, shift));
  EC_TRY(ec_call_check_dtype(c, 3, EC_BIT(self->dtype)));
  EC_TRY(ec_call_resize(c, 3, r.rank, r.sizes));
  if (flat) return roll_flat(c, self, out, &r);
  copy_rolled(c, out, self, &r, shift);
  return EC_OK;
}

enum { PIXEL_RANK = EC_MAX_RANK - 2 }; /* both sides of the copy have two dimensions more */

static ec_status check_pixels(ec_call *c, size_t rank, int64_t factor) {
  if (rank < 3 || rank > PIXEL_RANK)
    return ec_call_fail(c, 0, "%zu dimensions, expected 3 to %d", rank, PIXEL_RANK);
  if (factor <= 0) return ec_call_fail(c, 1, "%" PRId64 ", expected a positive factor", factor);
  return EC_OK;
}

/* Splits the last two dimensions (H * f, W * f), so that the region reads (..., C, H, f, W, f). */
static ec_region fine_pixels(const ec_tensor *t, int64_t f) {
  ec_region r = ec_region_of(t);
  size_t h = r.rank - 2;
  int64_t sh = r.strides[h], sw = r.strides[h + 1];
  ec_region_insert(&r, h + 2, f, sw);
  r.sizes[h + 1] /= f, r.strides[h + 1] = sw * f;
  ec_region_insert(&r, h + 1, f, sh);
  r.sizes[h] /= f, r.strides[h] = sh * f;
  return r;
}

/* Reads (..., C * f * f, H, W) in the same order. */
static ec_region coarse_pixels(const ec_tensor *t, int64_t f) {
  ec_region r = ec_region_of(t);
  size_t ch = r.rank - 3;
  int64_t sc = r.strides[ch];
  r.sizes[ch] /= f * f, r.strides[ch] = sc * f * f;
  ec_region_insert(&r, ch + 3, f, sc);
  ec_region_insert(&r, ch + 2, f, sc * f);
  return r;
}

/* Gives the output the sizes of a region, and copies the input's pixels in their order. */
static ec_status move_pixels(ec_call *c, const ec_region *sizes, int64_t f, bool to_fine) {
  const ec_tensor *self = ec_arg_tensor(c, 0);
  ec_tensor *out = ec_arg_tensor(c, 2);
  EC_TRY(ec_call_check_dtype(c, 2, EC_BIT(self->dtype)));
  const ec_tensor before = *self;
  EC_TRY(ec_call_resize(c, 2, sizes->rank, sizes->sizes));
  if (out->numel == 0) return EC_OK;
  const ec_region read = to_fine ? coarse_pixels(&before, f) : fine_pixels(&before, f);
  const ec_region written = to_fine ? fine_pixels(out, f) : coarse_pixels(out, f);
  ec_view to = ec_region_view(&written, out), from = ec_region_view(&read, self);
  ec_copy_view(c, &to, &from);
  return EC_OK;
}

ec_status ec_op_pixel_shuffle_out(ec_call *c) {
  ec_region r = ec_region_of(ec_arg_tensor(c, 0));
  int64_t f = ec_arg_int(c, 1), square;
  EC_TRY(check_pixels(c, r.rank, f));
  int64_t *s = &r.sizes[r.rank - 3];
  if (!ec_mul_i64(f, f, &square) || s[0] % square != 0)
    return ec_call_fail(c, 0, "%" PRId64 " channels, expected a multiple of the squared factor",
                        s[0]);
  s[0] /= square;
  if (!ec_mul_i64(s[1], f, &s[1]) || !ec_mul_i64(s[2], f, &s[2]))
    return ec_call_fail(c, 1, "%" PRId64 " results in impossible sizes", f);
  return move_pixels(c, &r, f, true);
}

ec_status ec_op_pixel_unshuffle_out(ec_call *c) {
  ec_region r = ec_region_of(ec_arg_tensor(c, 0));
  int64_t f = ec_arg_int(c, 1), square;
  EC_TRY(check_pixels(c, r.rank, f));
  int64_t *s = &r.sizes[r.rank - 3];
  if (s[1] % f != 0 || s[2] % f != 0)
    return ec_call_fail(c, 0,
                        "height %" PRId64 " and width %" PRId64 ", expected multiples of %" PRId64,
                        s[1], s[2], f);
  if (!ec_mul_i64(f, f, &square) || !ec_mul_i64(s[0], square, &s[0]))
    return ec_call_fail(c, 1, "%" PRId64 " results in impossible sizes", f);
  s[1] /= f;
  s[2] /= f;
  return move_pixels(c, &r, f, false);
}
