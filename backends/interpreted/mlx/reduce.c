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

uint32_t emx_call_round(const emx_call *c) {
  int64_t args[2], decimals;
  ect_tensor t;
  EC_BACKEND_TRY(emx_tensor(c, "x", &args[0], &t));
  EC_BACKEND_TRY(emx_literal(c, "decimals", 0, &decimals));
  args[0] = ect_convert(&c->g->program, args[0], emx_work(t.dtype));
  args[1] = ect_add_int(&c->g->program, decimals);
  return decimals ? emx_finish(c, "aten::round.decimals_out", args, 2, &t)
                  : emx_finish(c, "aten::round.out", args, 1, &t);
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
  const ect_tensor values = emx_like(&t, emx_work(t.dtype)), indices = emx_like(&t, EC_DTYPE_INT64);
  args[0] = ect_convert(p, args[0], values.dtype);
  const int64_t sort[] = {args[0], ect_add_bool(p, true), ect_add_int(p, axis)};
  outs[0] = ect_add_tensor(p, &values);
  outs[1] = ect_add_tensor(p, &indices);
  EC_BACKEND_TRY(ect_call_op(c->g, "aten::sort.values_stable", sort, 3, outs, 2, NULL));
  out = emx_like(&t, gives_indices ? EC_DTYPE_UINT32 : t.dtype);
  return emx_finish(c, "aten::_to_copy.out", &outs[gives_indices], 1, &out);
}
