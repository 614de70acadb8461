/* Plans of reductions: dimensions, result shape, and order of memory accesses. */
#include <inttypes.h>
#include <string.h>

#include "kernels/reduce/reduce.h"

ec_status ec_reduce_dims(ec_call *c, ec_ints dims, bool empty_is_all, size_t rank,
                         uint32_t *mask) {
  *mask = 0;
  if (dims.n == 0 && empty_is_all) {
    *mask = (1u << rank) - 1u;
    return EC_OK;
  }
  uint32_t seen = 0;
  for (size_t i = 0; i < dims.n; i++) {
    size_t d;
    EC_TRY(ec_call_wrap_dim(c, dims.v[i], rank, &d));
    if (seen >> d & 1u)
      return ec_fail(c->err, EC_INVALID_ARGUMENT, "dim %zu appears more than once", d);
    seen |= 1u << d;
  }
  *mask = rank ? seen : 0; /* a 0-d tensor accepts dimension 0 and has none */
  return EC_OK;
}

void ec_reduce_shape(ec_reduce_plan *p, const ec_tensor *in, uint32_t mask, bool keepdim) {
  memset(p, 0, sizeof *p);
  p->in = *in;
  p->mask = mask;
  p->keepdim = keepdim;
  p->count = 1;
  for (size_t d = 0; d < in->rank; d++) {
    bool reduced = mask >> d & 1u;
    if (reduced) p->count *= in->sizes[d]; /* ec_numel checked the whole product */
    if (!reduced || keepdim) p->sizes_out[p->rank_out++] = reduced ? 1 : in->sizes[d];
  }
}

ec_status ec_reduce_check_nonempty(ec_call *c, const ec_reduce_plan *p) {
  if (p->count) return EC_OK;
  bool some_kept = false;
  for (size_t d = 0; d < p->in.rank; d++) some_kept |= !(p->mask >> d & 1u);
  for (size_t d = 0; some_kept && d < p->in.rank; d++)
    if ((p->mask >> d & 1u) && p->in.sizes[d] == 0)
      return ec_call_fail(c, 0, "dimension %zu has size 0, expected at least one element", d);
  return ec_call_fail(c, 0, "the tensor is empty, expected at least one element");
}

ec_status ec_reduce_resize(ec_call *c, const ec_reduce_plan *p, size_t arg) {
  return ec_call_resize(c, arg, p->rank_out, p->sizes_out);
}

ec_status ec_reduce_dtype(ec_call *c, size_t dtype_arg, size_t out_arg, ec_dtype *dtype) {
  ec_dtype out = ec_tensor_dtype(ec_arg_tensor(c, out_arg));
  *dtype = out;
  if (ec_arg_is_none(c, dtype_arg)) return EC_OK;
  int64_t wanted = ec_arg_int(c, dtype_arg);
  if (!ec_dtype_valid(wanted))
    return ec_call_fail(c, dtype_arg, "%" PRId64 " is not a dtype", wanted);
  if (wanted != (int64_t)out)
    return ec_call_fail(c, out_arg, "dtype %s, expected %s", ec_dtype_name(out),
                        ec_dtype_name((ec_dtype)wanted));
  return EC_OK;
}

bool ec_reduce_direct(ec_dtype in, ec_dtype out) {
  if (in == out) return true;
  if (ec_is_integral(out)) return ec_dtype_in(in, EC_SET_INTB); /* both wrap around */
  if (ec_is_floating(out) && ec_is_floating(in))
    return ec_dtype_size(in) < ec_dtype_size(out); /* widening is exact */
  return in == EC_COMPLEX64 && out == EC_COMPLEX128;
}
