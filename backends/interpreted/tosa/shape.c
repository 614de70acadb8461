/* Arithmetic of shapes. */
#include "shape.h"

#include <string.h>

static uint32_t input_shape(ect_graph *g, const ect_node *n, uint32_t index,
                            const ect_operand **out) {
  EC_BACKEND_TRY(ets_input(g, n, index, out));
  return (*out)->dtype == ETS_SHAPE
             ? (uint32_t)EC_BACKEND_OK
             : ect_refuse(g, EC_BACKEND_INVALID_PROGRAM, "an input is not a shape");
}

static uint32_t define(ect_graph *g, const ect_node *n, const int64_t *numbers, uint32_t count) {
  ect_operand *v;
  EC_BACKEND_TRY(ets_result(g, n, &v));
  if (v->dtype != ETS_SHAPE || v->is_defined || v->rank != count)
    return ect_refuse(g, EC_BACKEND_INVALID_PROGRAM,
                      "the result is no shape of this rank, or is defined twice");
  memcpy(v->sizes, numbers, count * sizeof *numbers);
  v->is_defined = true;
  return EC_BACKEND_OK;
}

uint32_t ets_shape_const(ect_graph *g, const ect_node *n) {
  ect_operand *v;
  int64_t numbers[ECT_MAX_RANK];
  EC_BACKEND_TRY(ets_result(g, n, &v));
  if (v->data_size / sizeof *numbers < v->rank)
    return ect_refuse(g, EC_BACKEND_INVALID_PROGRAM, "the shape has too few bytes");
  memcpy(numbers, v->sizes, sizeof numbers);
  return define(g, n, numbers, v->rank);
}

uint32_t ets_shape_dim(ect_graph *g, const ect_node *n) {
  const ect_operand *x;
  EC_BACKEND_TRY(ets_input(g, n, 0, &x));
  const int64_t axis = ets_attribute_at(g, n, 0, 0);
  if (x->dtype == ETS_SHAPE || axis < 0 || axis >= x->rank)
    return ect_refuse(g, EC_BACKEND_INVALID_PROGRAM, "axis is out of range");
  return define(g, n, &x->sizes[axis], 1);
}

uint32_t ets_shape_concat(ect_graph *g, const ect_node *n) {
  int64_t numbers[ECT_MAX_RANK];
  uint32_t count = 0;
  for (uint32_t i = 0; i < n->input_count; i++) {
    const ect_operand *x;
    EC_BACKEND_TRY(input_shape(g, n, i, &x));
    if (x->rank > ECT_MAX_RANK - count)
      return ect_refuse(g, EC_BACKEND_NOT_SUPPORTED, "more than 16 numbers");
    memcpy(&numbers[count], x->sizes, x->rank * sizeof *numbers);
    count += x->rank;
  }
  return define(g, n, numbers, count);
}

/* Computes one number. Returns false if it is not defined. */
static bool compute(uint32_t op, int64_t a, int64_t b, int64_t *out) {
  const bool divides = op == ETS_MOD_SHAPE || op == ETS_DIV_CEIL_SHAPE || op == ETS_DIV_FLOOR_SHAPE;
  if (divides && (a < 0 || b <= 0)) return false;
  switch (op) {
  case ETS_ADD_SHAPE: return !__builtin_add_overflow(a, b, out);
  case ETS_SUB_SHAPE: return !__builtin_sub_overflow(a, b, out);
  case ETS_MUL_SHAPE: return !__builtin_mul_overflow(a, b, out);
  case ETS_MAX_SHAPE: *out = a > b ? a : b; return true;
  case ETS_MIN_SHAPE: *out = a < b ? a : b; return true;
  case ETS_MOD_SHAPE: *out = a % b; return true;
  case ETS_DIV_CEIL_SHAPE: *out = a / b + (a % b != 0); return true;
  case ETS_DIV_FLOOR_SHAPE: *out = a / b; return true;
  case ETS_EXP2_SHAPE: *out = a >= 0 && a < 63 ? INT64_C(1) << a : 0; return *out > 0;
  default: /* LOG2_*_SHAPE */
    if (a <= 0) return false;
    *out = 63 - __builtin_clzll((uint64_t)a);
    *out += op == ETS_LOG2_CEIL_SHAPE && (a & (a - 1)) != 0;
    return true;
  }
}

static uint32_t compute_all(ect_graph *g, const ect_node *n, const ect_operand *a,
                            const ect_operand *b) {
  int64_t numbers[ECT_MAX_RANK];
  if (a->rank != b->rank)
    return ect_refuse(g, EC_BACKEND_INVALID_PROGRAM, "shapes of different ranks");
  for (uint32_t i = 0; i < a->rank; i++)
    if (!compute(n->kind, a->sizes[i], b->sizes[i], &numbers[i]))
      return ect_refuse(g, EC_BACKEND_INVALID_PROGRAM, "a number of the shape is not defined");
  return define(g, n, numbers, a->rank);
}

uint32_t ets_shape_binary(ect_graph *g, const ect_node *n) {
  const ect_operand *a, *b;
  EC_BACKEND_TRY(input_shape(g, n, 0, &a));
  EC_BACKEND_TRY(input_shape(g, n, 1, &b));
  return compute_all(g, n, a, b);
}

uint32_t ets_shape_unary(ect_graph *g, const ect_node *n) {
  const ect_operand *a;
  EC_BACKEND_TRY(input_shape(g, n, 0, &a));
  return compute_all(g, n, a, a);
}

/* Inputs: numbers, first index, count. */
uint32_t ets_shape_slice(ect_graph *g, const ect_node *n) {
  const ect_operand *x, *start, *size;
  EC_BACKEND_TRY(input_shape(g, n, 0, &x));
  EC_BACKEND_TRY(input_shape(g, n, 1, &start));
  EC_BACKEND_TRY(input_shape(g, n, 2, &size));
  if (start->rank != 1 || size->rank != 1 || start->sizes[0] < 0 || size->sizes[0] < 0 ||
      size->sizes[0] > x->rank || start->sizes[0] > x->rank - size->sizes[0])
    return ect_refuse(g, EC_BACKEND_INVALID_PROGRAM, "the slice is not within its input");
  return define(g, n, &x->sizes[start->sizes[0]], (uint32_t)size->sizes[0]);
}

uint32_t ets_shape_assert(ect_graph *g, const ect_node *n) {
  const ect_operand *a, *b;
  EC_BACKEND_TRY(input_shape(g, n, 0, &a));
  EC_BACKEND_TRY(input_shape(g, n, 1, &b));
  const bool broadcasts = ets_attribute_at(g, n, 0, 0) != 0;
  for (uint32_t i = 0; i < a->rank && a->rank == b->rank; i++)
    if (a->sizes[i] != b->sizes[i] && !(broadcasts && (a->sizes[i] == 1 || b->sizes[i] == 1)))
      return ect_refuse(g, EC_BACKEND_INVALID_PROGRAM, "the shapes are not equal");
  return a->rank == b->rank
             ? (uint32_t)EC_BACKEND_OK
             : ect_refuse(g, EC_BACKEND_INVALID_PROGRAM, "the shapes have different ranks");
}
