/* Access to arguments, and the checks that all kernels share. */
#include "kernels/call.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

ec_status ec_arg_ints(ec_call *c, size_t i, ec_ints *out) {
  *out = (ec_ints){NULL, 0};
  const ec_value *list = c->args[i];
  if (list->kind == EC_KIND_NONE) return EC_OK;
  int64_t *v;
  EC_TRY(ec_call_scratch(c, list->count, sizeof *v, &v));
  for (size_t k = 0; k < list->count; k++) v[k] = ec_value_int(list->as.items[k]);
  *out = (ec_ints){v, list->count};
  return EC_OK;
}

ec_tensors ec_arg_tensors(const ec_call *c, size_t i) {
  const ec_value *list = c->args[i];
  if (list->kind == EC_KIND_NONE) return (ec_tensors){NULL, 0};
  return (ec_tensors){list->as.items, list->count};
}

ec_status ec_call_scratch(ec_call *c, size_t count, size_t size, void *out) {
  return ec_arena_array(c->scratch, count, size, "scratch", out, c->err);
}

ec_status ec_call_like(ec_call *c, const ec_tensor *like, ec_dtype dtype, ec_tensor *out) {
  ec_tensor t = *like;
  t.dtype = (uint8_t)dtype;
  EC_TRY(ec_call_scratch(c, (size_t)t.numel, ec_dtype_size(dtype), &t.data));
  t.capacity = ec_tensor_nbytes(&t);
  *out = t;
  return EC_OK;
}

ec_status ec_call_resize(ec_call *c, size_t i, size_t rank, const int64_t *sizes) {
  ec_status status = ec_tensor_resize(ec_arg_tensor(c, i), rank, sizes, c->err);
  if (status == EC_OK) return EC_OK;
  return ec_fail_in(c->err, status, "argument '%s'", c->op->args[i].name);
}

ec_status ec_call_return(ec_call *c, ec_scalar result) {
  ec_value *slot = c->args[c->op->nargs];
  slot->kind = (uint32_t)result.kind;
  if (result.kind == EC_KIND_DOUBLE) slot->as.d = result.as.d;
  else if (result.kind == EC_KIND_BOOL) slot->as.b = result.as.b;
  else slot->as.i = result.as.i;
  return EC_OK;
}

ec_status ec_call_fail(ec_call *c, size_t i, const char *fmt, ...) {
  char text[EC_ERROR_SIZE / 2];
  va_list args;
  va_start(args, fmt);
  vsnprintf(text, sizeof text, fmt, args);
  va_end(args);
  return ec_fail(c->err, EC_INVALID_ARGUMENT, "argument '%s': %s", c->op->args[i].name, text);
}

static ec_status check_float8(const ec_op *op, size_t i, const ec_value *v, ec_error *err) {
  const bool is_list = v->kind == EC_KIND_TENSOR_LIST || v->kind == EC_KIND_OPTIONAL_TENSOR_LIST;
  if (v->kind == EC_KIND_TENSOR) {
    const ec_dtype dtype = ec_tensor_dtype(v->as.tensor);
    if (!ec_is_float8(dtype) || ec_dtype_in(dtype, op->dtypes)) return EC_OK;
    return ec_fail(err, EC_NOT_SUPPORTED, "argument '%s' has dtype %s, which this operator lacks",
                   op->args[i].name, ec_dtype_name(dtype));
  }
  for (uint32_t k = 0; is_list && k < v->count; k++)
    EC_TRY(check_float8(op, i, v->as.items[k], err));
  return EC_OK;
}

ec_status ec_op_check_float8(const ec_op *op, ec_value *const *args, ec_error *err) {
  for (size_t i = 0; i < op->nargs; i++) EC_TRY(check_float8(op, i, args[i], err));
  return EC_OK;
}

ec_status ec_call_check_dtype(ec_call *c, size_t i, ec_dtype_set expected) {
  ec_dtype actual = ec_tensor_dtype(ec_arg_tensor(c, i));
  if (ec_dtype_in(actual, expected)) return EC_OK;
  char names[256];
  return ec_call_fail(c, i, "dtype %s, expected one of %s", ec_dtype_name(actual),
                      ec_dtype_set_names(expected, names, sizeof names));
}

ec_status ec_call_check_same_dtype(ec_call *c, size_t i, size_t as) {
  ec_dtype actual = ec_tensor_dtype(ec_arg_tensor(c, i));
  ec_dtype expected = ec_tensor_dtype(ec_arg_tensor(c, as));
  if (actual == expected) return EC_OK;
  return ec_call_fail(c, i, "dtype %s, expected %s as in '%s'", ec_dtype_name(actual),
                      ec_dtype_name(expected), c->op->args[as].name);
}

ec_status ec_call_check_rank(ec_call *c, size_t i, size_t least, size_t most) {
  const ec_tensor *t = ec_arg_tensor(c, i);
  if (t->rank >= least && t->rank <= most) return EC_OK;
  char text[EC_SHAPE_TEXT];
  ec_shape_text(t->sizes, t->rank, text, sizeof text);
  if (least == most)
    return ec_call_fail(c, i, "shape %s, expected %zu dimensions", text, least);
  return ec_call_fail(c, i, "shape %s, expected %zu to %zu dimensions", text, least, most);
}

ec_status ec_call_wrap_dim(ec_call *c, int64_t dim, size_t rank, size_t *out) {
  int64_t n = rank ? (int64_t)rank : 1;
  if (dim < -n || dim >= n)
    return ec_fail(c->err, EC_INVALID_ARGUMENT,
                   "dim %" PRId64 " is out of range, expected [%" PRId64 ", %" PRId64 "]", dim, -n,
                   n - 1);
  *out = (size_t)(dim < 0 ? dim + n : dim);
  return EC_OK;
}
