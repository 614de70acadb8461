/* Reductions that the runtime lacks, running sums, sorts, pointwise operators of several calls. */
#include <string.h>

#include "../rows.h"
#include "special.h"

/* Finds the name of a node in mlx::reduce. */
static const char *reduce_kind(ect_text op) {
  static const char *const kinds[][2] = {{"All", "all"}, {"Any", "any"},
                                         {"LogSumExp", "logsumexp"}, {"Median", "median"},
                                         {"Prod", "prod"}, {"Std", "std"}, {"Var", "var"}};
  size_t i = 0;
  while (!ect_text_is(op, kinds[i][0])) i++;
  return kinds[i][1];
}

uint32_t emx_call_reduce(const emx_call *c) {
  ect_program *p = &c->g->program;
  const char *kind = reduce_kind(c->n->op);
  int64_t args[5], bounds[ECT_MAX_RANK], ddof;
  uint32_t count;
  bool is_literal;
  ect_tensor t;
  EC_BACKEND_TRY(emx_tensor(c, "x", &args[0], &t));
  const int32_t dtype = t.dtype;
  EC_BACKEND_TRY(emx_reduce_type(c, &t));
  EC_BACKEND_TRY(emx_ints(c, "axes", &args[1], bounds, &count, &is_literal));
  EC_BACKEND_TRY(emx_literal(c, "ddof", 0, &ddof));
  args[2] = ect_add_bool(p, emx_bool(c, "keepdims", false));
  args[3] = ect_add_string(p, kind, strlen(kind));
  args[4] = ect_add_int(p, ddof);
  t.dtype = kind[0] == 'a'          ? EC_DTYPE_BOOL
            : !strcmp(kind, "prod") ? emx_sum_type(dtype)
                                    : emx_float(dtype);
  return emx_finish(c, "mlx::reduce.out", args, 5, &t);
}

uint32_t emx_call_cumsum(const emx_call *c) {
  ect_program *p = &c->g->program;
  int64_t args[4];
  uint32_t axis;
  ect_tensor t;
  EC_BACKEND_TRY(emx_tensor(c, "x", &args[0], &t));
  EC_BACKEND_TRY(emx_axis(c, "axis", t.rank, &axis));
  args[1] = ect_add_int(p, axis);
  args[2] = ect_add_bool(p, emx_bool(c, "reverse", false));
  args[3] = ect_add_bool(p, emx_bool(c, "inclusive", true));
  if (t.dtype == EC_DTYPE_BOOL) t.dtype = EC_DTYPE_INT32;
  return emx_finish(c, "mlx::cumsum.out", args, 4, &t);
}

/* x * sigmoid(x). The product of halves is rounded once: both factors are float32. */
uint32_t emx_call_silu(const emx_call *c) {
  int64_t args[2];
  ect_tensor t;
  EC_BACKEND_TRY(emx_tensor(c, "x", &args[0], &t));
  const int32_t dtype = emx_float(t.dtype);
  args[0] = ect_convert(&c->g->program, args[0], EC_DTYPE_FLOAT32);
  t.dtype = EC_DTYPE_FLOAT32;
  EC_BACKEND_TRY(emx_helper(c, "aten::sigmoid.out", args, 1, &t, &args[1]));
  t.dtype = dtype;
  return emx_finish(c, "aten::mul.out", args, 2, &t);
}

/* Finds the promoted type of `a` and `b`, and converts both to what is computed with. */
static uint32_t read_pair(const emx_call *c, int64_t *args, ect_tensor *t) {
  ect_tensor other;
  EC_BACKEND_TRY(emx_tensor(c, "a", &args[0], t));
  EC_BACKEND_TRY(emx_tensor(c, "b", &args[1], &other));
  *t = emx_like(t, emx_promote(t->dtype, other.dtype));
  emx_broadcast(t, &other);
  for (size_t i = 0; i < 2; i++)
    args[i] = ect_convert(&c->g->program, args[i], emx_work(t->dtype));
  return EC_BACKEND_OK;
}

/* Floats are divided, then rounded down: infinities follow from that. */
uint32_t emx_call_floor_divide(const emx_call *c) {
  int64_t args[3], quotient;
  ect_tensor t;
  EC_BACKEND_TRY(read_pair(c, args, &t));
  args[2] = ect_add_bool(&c->g->program, false);
  if (t.dtype == EC_DTYPE_UINT64) return emx_finish(c, "mlx::divide_unsigned.out", args, 3, &t);
  if (emx_float(t.dtype) != t.dtype) return emx_finish(c, "aten::floor_divide.out", args, 2, &t);
  EC_BACKEND_TRY(emx_helper(c, "aten::div.out", args, 2, &t, &quotient));
  return emx_finish(c, "aten::floor.out", &quotient, 1, &t);
}

uint32_t emx_call_remainder(const emx_call *c) {
  int64_t args[3];
  ect_tensor t;
  EC_BACKEND_TRY(read_pair(c, args, &t));
  args[2] = ect_add_bool(&c->g->program, true);
  if (t.dtype == EC_DTYPE_UINT64) return emx_finish(c, "mlx::divide_unsigned.out", args, 3, &t);
  return emx_finish(c, "aten::remainder.Tensor_out", args, 2, &t);
}

/* Integers are rounded as float32. */
static uint32_t round_decimals(const emx_call *c, int64_t x, int64_t decimals,
                               const ect_tensor *type) {
  ect_program *p = &c->g->program;
  const ect_tensor t = emx_like(type, emx_float(type->dtype));
  const int64_t args[] = {ect_convert(p, x, t.dtype), ect_add_int(p, decimals)};
  int64_t out;
  if (t.dtype == type->dtype) return emx_finish(c, "aten::round.decimals_out", args, 2, type);
  EC_BACKEND_TRY(emx_helper(c, "aten::round.decimals_out", args, 2, &t, &out));
  return emx_finish(c, "aten::_to_copy.out", &out, 1, type);
}

uint32_t emx_call_round(const emx_call *c) {
  int64_t args[1], decimals;
  ect_tensor t;
  EC_BACKEND_TRY(emx_tensor(c, "x", &args[0], &t));
  EC_BACKEND_TRY(emx_literal(c, "decimals", 0, &decimals));
  if (decimals) return round_decimals(c, args[0], decimals, &t);
  EC_BACKEND_TRY(emx_order(c, args[0], &t, t.dtype, &args[0]));
  return emx_finish_order(c, "aten::round.out", args, 1, &t);
}

/* Returns true for dtypes with numbers below zero. */
static bool is_signed(int32_t dtype) {
  return emx_work(dtype) == dtype && dtype != EC_DTYPE_BOOL && dtype != EC_DTYPE_UINT8;
}

/* Bools and unsigned numbers stay as they are. */
uint32_t emx_call_abs(const emx_call *c) {
  int64_t x;
  ect_tensor t;
  EC_BACKEND_TRY(emx_tensor(c, "x", &x, &t));
  return emx_finish(c, is_signed(t.dtype) ? "aten::abs.out" : "aten::clone.out", &x, 1, &t);
}

/* Of an unsigned number: whether it is another than 0. */
uint32_t emx_call_sign(const emx_call *c) {
  int64_t x;
  ect_tensor t;
  EC_BACKEND_TRY(emx_tensor(c, "x", &x, &t));
  if (is_signed(t.dtype)) return emx_finish(c, "aten::sign.out", &x, 1, &t);
  x = ect_convert(&c->g->program, x, EC_DTYPE_BOOL);
  return emx_finish(c, "aten::_to_copy.out", &x, 1, &t);
}

/* A partition is sorted, too: any order of its two parts is right. */
uint32_t emx_call_sort(const emx_call *c) {
  ect_program *p = &c->g->program;
  const bool gives_indices = c->n->op.data[0] == 'A';
  int64_t args[3], outs[2];
  uint32_t axis;
  ect_tensor t, out;
  EC_BACKEND_TRY(emx_tensor(c, "x", &args[0], &t));
  EC_BACKEND_TRY(emx_axis(c, "axis", t.rank, &axis));
  const ect_tensor values = emx_like(&t, emx_order_type(t.dtype));
  const ect_tensor indices = emx_like(&t, EC_DTYPE_INT64);
  EC_BACKEND_TRY(emx_order(c, args[0], &t, t.dtype, &args[0]));
  const int64_t sort[] = {args[0], ect_add_bool(p, true), ect_add_int(p, axis)};
  outs[0] = ect_add_tensor(p, &values);
  outs[1] = ect_add_tensor(p, &indices);
  EC_BACKEND_TRY(ect_call_op(c->g, "aten::sort.values_stable", sort, 3, outs, 2, NULL));
  out = emx_like(&t, gives_indices ? EC_DTYPE_UINT32 : t.dtype);
  if (!gives_indices) return emx_finish_order(c, "aten::clone.out", outs, 1, &out);
  return emx_finish(c, "aten::_to_copy.out", &outs[1], 1, &out);
}
