/* Complex numbers as pairs of real ones in a last dimension of two, and back. */
#include "kernels/copy.h"

static ec_dtype to_complex(ec_dtype d) { return d == EC_FLOAT32 ? EC_COMPLEX64 : EC_COMPLEX128; }
static ec_dtype to_real(ec_dtype d) { return d == EC_COMPLEX64 ? EC_FLOAT32 : EC_FLOAT64; }

/* Writes self, seen as `src`, to the output. */
static ec_status write_out(ec_call *c, const ec_view *src) {
  EC_TRY(ec_call_check_dtype(c, 1, EC_BIT(src->dtype)));
  EC_TRY(ec_call_resize(c, 1, src->rank, src->sizes));
  const ec_view dst = ec_view_of(ec_arg_tensor(c, 1));
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
  return write_out(c, &src);
}

/* As eager, which makes a view: pairs must lie together and at even distances. */
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
  return write_out(c, &src);
}
