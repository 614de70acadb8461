/* The same memory as elements of another dtype: complex numbers as pairs of real ones in a last
 * dimension of two, and the reverse; any dtype as any other. */
#include <inttypes.h>

#include "kernels/copy.h"

static ec_dtype to_complex(ec_dtype d) { return d == EC_FLOAT32 ? EC_COMPLEX64 : EC_COMPLEX128; }
static ec_dtype to_real(ec_dtype d) { return d == EC_COMPLEX64 ? EC_FLOAT32 : EC_FLOAT64; }

/* Writes self, viewed as `src`, to the output `o`. */
static ec_status write_out(ec_call *c, const ec_view *src, size_t o) {
  EC_TRY(ec_call_check_dtype(c, o, EC_BIT(src->dtype)));
  EC_TRY(ec_call_resize(c, o, src->rank, src->sizes));
  const ec_view dst = ec_view_of(ec_arg_tensor(c, o));
  ec_copy_view(c, &dst, src);
  return EC_OK;
}

ec_status ec_op_view_as_real_copy_out(ec_call *c) {
  ec_view src = ec_view_of(ec_arg_tensor(c, 0));
  EC_TRY(ec_call_check_dtype(c, 0, EC_SET_COMPLEX));
  EC_TRY(ec_call_check_rank(c, 0, 0, EC_MAX_RANK - 1));
  for (size_t d = 0; d < src.rank; d++) src.strides[d] *= 2;
  src.sizes[src.rank] = 2;
  src.strides[src.rank++] = 1;
  src.dtype = to_real(src.dtype);
  return write_out(c, &src, 1);
}

/* Requires adjacent pairs at even strides, as eager does for its view. */
ec_status ec_op_view_as_complex_copy_out(ec_call *c) {
  ec_view src = ec_view_of(ec_arg_tensor(c, 0));
  EC_TRY(ec_call_check_dtype(c, 0, EC_BIT(EC_FLOAT32) | EC_BIT(EC_FLOAT64)));
  EC_TRY(ec_call_check_rank(c, 0, 1, EC_MAX_RANK));
  src.rank--;
  if (src.sizes[src.rank] != 2) return ec_call_fail(c, 0, "its last dimension is not of size 2");
  if (src.strides[src.rank] != 1)
    return ec_call_fail(c, 0, "its last dimension has a stride other than 1");
  for (size_t d = 0; d < src.rank; d++) {
    if (src.strides[d] % 2 != 0) return ec_call_fail(c, 0, "dimension %zu has an odd stride", d);
    src.strides[d] /= 2;
  }
  src.dtype = to_complex(src.dtype);
  return write_out(c, &src, 1);
}

/* Splits each element into `ratio` elements of the new dtype. */
static void split_parts(ec_view *v, int64_t ratio) {
  for (size_t d = 0; d + 1 < v->rank; d++) v->strides[d] *= ratio;
  v->sizes[v->rank - 1] *= ratio;
}

/* Joins `ratio` elements into one element of the new dtype. */
static ec_status join_parts(ec_call *c, ec_view *v, int64_t ratio) {
  const int64_t last = v->sizes[v->rank - 1];
  if (last % ratio)
    return ec_call_fail(c, 0, "its last dimension has %" PRId64 " elements, not a multiple of %"
                        PRId64, last, ratio);
  for (size_t d = 0; d + 1 < v->rank; d++) {
    if (v->strides[d] % ratio)
      return ec_call_fail(c, 0, "the stride of dimension %zu is not a multiple of %" PRId64, d,
                          ratio);
    v->strides[d] /= ratio;
  }
  v->sizes[v->rank - 1] /= ratio;
  return EC_OK;
}

ec_status ec_op_view_copy_dtype_out(ec_call *c) {
  ec_view src = ec_view_of(ec_arg_tensor(c, 0));
  const int64_t dtype = ec_arg_int(c, 1);
  if (!ec_dtype_valid(dtype)) return ec_call_fail(c, 1, "%" PRId64 " is not a dtype", dtype);
  const size_t from = ec_dtype_size(src.dtype), to = ec_dtype_size((ec_dtype)dtype);
  src.dtype = (ec_dtype)dtype;
  if (from == to) return write_out(c, &src, 2);
  if (src.rank == 0) return ec_call_fail(c, 0, "is 0-d, expected dimensions");
  if (src.strides[src.rank - 1] != 1)
    return ec_call_fail(c, 0, "its last dimension has a stride other than 1");
  if (to < from) split_parts(&src, (int64_t)(from / to));
  else EC_TRY(join_parts(c, &src, (int64_t)(to / from)));
  return write_out(c, &src, 2);
}
