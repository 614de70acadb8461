/* Operators that are not one row. */
#include "special.h"

#include "../pack.h"

/* Finds the first input of an operator that propagates NaN; `attribute` is its nan_mode. */
static uint32_t propagating_input(ect_graph *g, const ect_node *n, size_t attribute,
                                  const ect_operand **x, int64_t *out) {
  EC_BACKEND_TRY(ets_input(g, n, 0, x));
  if (ets_is_float((*x)->dtype) && ets_attribute_at(g, n, attribute, 0) == ETS_NAN_IGNORED)
    return ect_refuse(g, EC_BACKEND_NOT_SUPPORTED, "nan_mode IGNORE is not supported");
  return ets_tensor(g, n, 0, out);
}

uint32_t ets_call_const(ect_graph *g, const ect_node *n) {
  static const uint8_t empty[1];
  size_t bytes;
  ect_operand *v;
  EC_BACKEND_TRY(ets_result(g, n, &v));
  if (v->is_defined || (ect_stored_bytes(v, &bytes) && bytes && !v->data))
    return ect_refuse(g, EC_BACKEND_INVALID_PROGRAM, "no elements, or they are defined twice");
  if (!v->data) v->data = empty;
  v->is_defined = true;
  return EC_BACKEND_OK;
}

/* ---- results of other dtypes ----------------------------------------------------------------- */

uint32_t ets_call_in(ect_graph *g, const ect_node *n, uint32_t dtype, const char *op,
                     const int64_t *args, size_t count) {
  ect_operand *result;
  EC_BACKEND_TRY(ets_result(g, n, &result));
  if (result->dtype == dtype) return ets_call_op(g, n, op, args, count);
  const int64_t computed = ets_add_tensor(g, dtype, result->rank, result->sizes);
  EC_BACKEND_TRY(ets_call_step(g, op, args, count, computed));
  return ets_call_op(g, n, "aten::_to_copy.out", &computed, 1);
}

uint32_t ets_computed_dtype(uint32_t dtype) { return ets_is_float(dtype) ? ETS_FP32 : dtype; }

uint32_t ets_first_computed(ect_graph *g, const ect_node *n, const ect_operand **x, int64_t *out) {
  EC_BACKEND_TRY(ets_input(g, n, 0, x));
  EC_BACKEND_TRY(ets_tensor(g, n, 0, out));
  *out = ets_convert(g, *out, (*x)->dtype, ets_computed_dtype((*x)->dtype));
  return EC_BACKEND_OK;
}

uint32_t ets_call_argmax(ect_graph *g, const ect_node *n) {
  const ect_operand *x;
  int64_t args[3];
  EC_BACKEND_TRY(propagating_input(g, n, 1, &x, &args[0]));
  args[1] = ect_add_int(&g->program, ets_attribute_at(g, n, 0, 0));
  args[2] = ect_add_bool(&g->program, false);
  return ets_call_in(g, n, ETS_INT64, "aten::argmax.out", args, 3);
}

uint32_t ets_call_resize(ect_graph *g, const ect_node *n) {
  const ect_operand *x;
  ect_operand *result;
  int64_t args[5];
  EC_BACKEND_TRY(ets_first_computed(g, n, &x, &args[0]));
  EC_BACKEND_TRY(ets_result(g, n, &result));
  for (uint32_t i = 1; i < 4; i++) EC_BACKEND_TRY(ets_shape(g, n, i, &args[i]));
  args[4] = ect_add_int(&g->program, ets_attribute_at(g, n, 0, 0));
  return ets_call_in(g, n, ets_computed_dtype(result->dtype), "tosa::resize.out", args, 5);
}

uint32_t ets_call_cast(ect_graph *g, const ect_node *n) {
  const ect_operand *x;
  ect_operand *result;
  int64_t args[1];
  EC_BACKEND_TRY(ets_input(g, n, 0, &x));
  EC_BACKEND_TRY(ets_result(g, n, &result));
  if (ets_is_float(x->dtype) && !ets_is_float(result->dtype) && result->dtype != ETS_BOOL) {
    EC_BACKEND_TRY(ets_first_computed(g, n, &x, &args[0]));
    return ets_call_op(g, n, "tosa::cast.out", args, 1);
  }
  EC_BACKEND_TRY(ets_tensor(g, n, 0, &args[0]));
  return ets_call_op(g, n, "aten::_to_copy.out", args, 1);
}

/* ---- one operator for floats, another for integers ------------------------------------------- */

/* Adds a call with `floats` inputs of floats, or `integers` of others. */
static uint32_t call_by_dtype(ect_graph *g, const ect_node *n, const char *float_op,
                              uint32_t floats, const char *integer_op, uint32_t integers) {
  const ect_operand *x;
  ect_operand *result;
  int64_t args[4];
  EC_BACKEND_TRY(ets_input(g, n, 0, &x));
  EC_BACKEND_TRY(ets_result(g, n, &result));
  const bool is_float = ets_is_float(x->dtype);
  const uint32_t count = is_float ? floats : integers;
  for (uint32_t i = 0; i < count; i++) {
    EC_BACKEND_TRY(ets_tensor(g, n, i, &args[i]));
    if (is_float) args[i] = ets_convert(g, args[i], x->dtype, result->dtype);
  }
  return ets_call_op(g, n, is_float ? float_op : integer_op, args, count);
}

uint32_t ets_call_matmul(ect_graph *g, const ect_node *n) {
  return call_by_dtype(g, n, "aten::bmm.out", 2, "tosa::matmul.out", 4);
}

uint32_t ets_call_mul(ect_graph *g, const ect_node *n) {
  return call_by_dtype(g, n, "aten::mul.out", 2, "tosa::mul.out", 3);
}

uint32_t ets_call_negate(ect_graph *g, const ect_node *n) {
  return call_by_dtype(g, n, "aten::neg.out", 1, "tosa::negate.out", 3);
}

uint32_t ets_call_extreme(ect_graph *g, const ect_node *n) {
  const bool ignores = ets_attribute_at(g, n, 0, 0) == ETS_NAN_IGNORED;
  if (n->kind == ETS_MAXIMUM)
    return call_by_dtype(g, n, ignores ? "aten::fmax.out" : "aten::maximum.out", 2,
                         "aten::maximum.out", 2);
  return call_by_dtype(g, n, ignores ? "aten::fmin.out" : "aten::minimum.out", 2,
                       "aten::minimum.out", 2);
}

uint32_t ets_call_reduce_extreme(ect_graph *g, const ect_node *n) {
  const ect_operand *x;
  int64_t args[3];
  EC_BACKEND_TRY(propagating_input(g, n, 1, &x, &args[0]));
  args[1] = ets_list(g, n, 0);
  args[2] = ect_add_bool(&g->program, true);
  const bool is_max = n->kind == ETS_REDUCE_MAX;
  return ets_call_op(g, n, is_max ? "aten::amax.out" : "aten::amin.out", args, 3);
}

/* ---- numbers and sizes ----------------------------------------------------------------------- */

/* Adds a number that has the bytes of an element. */
static int64_t add_number(ect_graph *g, uint32_t dtype, const uint8_t *bytes) {
  const double number = ect_decode(ets_scalar_type(dtype), bytes);
  return ets_is_float(dtype) ? ect_add_double(&g->program, number)
                             : ect_add_int(&g->program, (int64_t)number);
}

uint32_t ets_call_clamp(ect_graph *g, const ect_node *n) {
  const ect_operand *x;
  double bounds[2];
  int64_t args[3];
  EC_BACKEND_TRY(propagating_input(g, n, 2, &x, &args[0]));
  for (size_t i = 0; i < 2; i++) {
    const ect_operand *bound = ets_attribute(g, n, i);
    if (bound->data_size < ec_backend_dtype_size(ets_scalar_type(x->dtype)))
      return ect_refuse(g, EC_BACKEND_INVALID_PROGRAM, "a bound has too few bytes");
    args[i + 1] = add_number(g, x->dtype, bound->data);
    bounds[i] = ect_decode(x->scalar_type, bound->data);
  }
  if (!(bounds[0] <= bounds[1]))
    return ect_refuse(g, EC_BACKEND_INVALID_PROGRAM, "min_val is not below max_val");
  return ets_call_op(g, n, "aten::clamp.out", args, 3);
}

uint32_t ets_call_pad(ect_graph *g, const ect_node *n) {
  const ect_operand *x, *pads, *value;
  int64_t args[3], reversed[ECT_MAX_RANK];
  EC_BACKEND_TRY(ets_input(g, n, 0, &x));
  EC_BACKEND_TRY(ets_input(g, n, 1, &pads));
  EC_BACKEND_TRY(ets_input(g, n, 2, &value));
  EC_BACKEND_TRY(ets_tensor(g, n, 0, &args[0]));
  if (pads->dtype != ETS_SHAPE || pads->rank != 2 * x->rank)
    return ect_refuse(g, EC_BACKEND_INVALID_PROGRAM, "the padding has another rank");
  if (!value->data || value->data_size < ec_backend_dtype_size(ets_scalar_type(value->dtype)))
    return ect_refuse(g, EC_BACKEND_NOT_SUPPORTED, "the value of the padding is not constant");
  for (uint32_t i = 0; i < pads->rank; i++)
    reversed[i] = pads->sizes[pads->rank - 2 - i + 2 * (i % 2)];
  args[1] = ect_add_ints(&g->program, reversed, pads->rank);
  args[2] = add_number(g, value->dtype, value->data);
  return ets_call_op(g, n, "aten::constant_pad_nd.out", args, 3);
}

uint32_t ets_call_slice(ect_graph *g, const ect_node *n) {
  const ect_operand *x, *start, *size;
  int64_t args[4], strides[ECT_MAX_RANK], step = 1, offset = 0;
  EC_BACKEND_TRY(ets_input(g, n, 0, &x));
  EC_BACKEND_TRY(ets_input(g, n, 1, &start));
  EC_BACKEND_TRY(ets_input(g, n, 2, &size));
  EC_BACKEND_TRY(ets_tensor(g, n, 0, &args[0]));
  if (start->dtype != ETS_SHAPE || size->dtype != ETS_SHAPE || start->rank != x->rank ||
      size->rank != x->rank)
    return ect_refuse(g, EC_BACKEND_INVALID_PROGRAM, "start or size has another rank");
  for (uint32_t d = x->rank; d-- > 0;) {
    if (start->sizes[d] < 0 || size->sizes[d] < 0 || size->sizes[d] > x->sizes[d] ||
        start->sizes[d] > x->sizes[d] - size->sizes[d])
      return ect_refuse(g, EC_BACKEND_INVALID_PROGRAM, "the slice is not within its input");
    strides[d] = step;
    if (__builtin_mul_overflow(step, x->sizes[d], &step))
      return ect_refuse(g, EC_BACKEND_INVALID_PROGRAM, "the input is too large");
    offset += start->sizes[d] * strides[d];
  }
  args[1] = ect_add_ints(&g->program, size->sizes, size->rank);
  args[2] = ect_add_ints(&g->program, strides, x->rank);
  args[3] = ect_add_int(&g->program, offset);
  return ets_call_op(g, n, "aten::as_strided_copy.out", args, 4);
}
