/* Positions: gather, scatter, the largest elements. */
#include <string.h>

#include "special.h"

/* ---- gather ---------------------------------------------------------------------------------- */

static uint32_t refuse_batch(ecm_node *n) {
  double batch = 0;
  EC_BACKEND_TRY(ecm_number(n, "batch_dims", 0, &batch));
  return batch != 0 ? ecm_refuse(n, "batch_dims is not 0") : (uint32_t)EC_BACKEND_OK;
}

/* A list of indices with none for the dimensions before the axis. */
static int64_t index_list(ecm_node *n, int64_t axis, int64_t indices) {
  int64_t items[ECT_MAX_RANK];
  for (int64_t d = 0; d < axis; d++) items[d] = ECT_NO_VALUE;
  items[axis] = indices;
  return ect_add_list(&n->g->program, ECT_OPTIONAL_TENSOR_LIST, items, (size_t)axis + 1);
}

/* Reads indices: int32 or int64 for ATen. */
static uint32_t read_indices(ecm_node *n, int32_t dtype, int64_t *id, ect_tensor *t) {
  EC_BACKEND_TRY(ecm_typed(n, "indices", id, t));
  if (t->dtype == dtype) return EC_BACKEND_OK;
  t->dtype = dtype;
  const int64_t args[] = {*id, ect_add_bool(&n->g->program, false)};
  return ecm_step(n, "aten::_to_copy.out", args, 2, t, id);
}

uint32_t ecm_call_gather(ecm_node *n) {
  int64_t args[2], indices = 0, axis = 0;
  ect_tensor x, t;
  EC_BACKEND_TRY(refuse_batch(n));
  EC_BACKEND_TRY(ecm_typed(n, "x", &args[0], &x));
  EC_BACKEND_TRY(ecm_axis(n, "axis", 0, x.rank, &axis));
  EC_BACKEND_TRY(read_indices(n, EC_DTYPE_INT32, &indices, &t));
  args[1] = index_list(n, axis, indices);
  return ecm_finish(n, "aten::index.Tensor_out", args, 2);
}

/* Indices along an axis, which may be negative, as those of ATen. */
static uint32_t read_along(ecm_node *n, const ect_tensor *x, int64_t axis, int64_t *out) {
  ect_tensor t;
  EC_BACKEND_TRY(read_indices(n, EC_DTYPE_INT64, out, &t));
  if (axis >= x->rank) return ecm_refuse(n, "axis is out of range");
  const int64_t args[] = {*out, ect_add_int(&n->g->program, x->sizes[axis])};
  return ecm_step(n, "aten::remainder.Scalar_out", args, 2, &t, out);
}

uint32_t ecm_call_gather_along(ecm_node *n) {
  int64_t args[3], axis = 0;
  ect_tensor x;
  EC_BACKEND_TRY(ecm_typed(n, "x", &args[0], &x));
  EC_BACKEND_TRY(ecm_axis(n, "axis", 0, x.rank, &axis));
  EC_BACKEND_TRY(read_along(n, &x, axis, &args[2]));
  args[1] = ect_add_int(&n->g->program, axis);
  return ecm_finish(n, "aten::gather.out", args, 3);
}

/* Splits indices of positions into one tensor for each coordinate. */
static uint32_t split_positions(ecm_node *n, uint32_t rank, int64_t *list) {
  ect_program *p = &n->g->program;
  int64_t indices = 0, items[ECT_MAX_RANK];
  ect_tensor t;
  EC_BACKEND_TRY(read_indices(n, EC_DTYPE_INT32, &indices, &t));
  const int64_t count = t.rank ? t.sizes[t.rank - 1] : 0;
  if (count < 1 || count > rank) return ecm_refuse(n, "indices have more coordinates than x");
  t.rank--;
  for (int64_t i = 0; i < count; i++) {
    const int64_t args[] = {indices, ect_add_int(p, -1), ect_add_int(p, i)};
    EC_BACKEND_TRY(ecm_step(n, "aten::select_copy.int_out", args, 3, &t, &items[i]));
  }
  *list = ect_add_list(p, ECT_OPTIONAL_TENSOR_LIST, items, (size_t)count);
  return EC_BACKEND_OK;
}

uint32_t ecm_call_gather_nd(ecm_node *n) {
  int64_t args[2];
  ect_tensor x;
  EC_BACKEND_TRY(refuse_batch(n));
  EC_BACKEND_TRY(ecm_typed(n, "x", &args[0], &x));
  EC_BACKEND_TRY(split_positions(n, x.rank, &args[1]));
  return ecm_finish(n, "aten::index.Tensor_out", args, 2);
}

/* ---- scatter --------------------------------------------------------------------------------- */

static uint32_t read_mode(ecm_node *n, bool *adds) {
  *adds = ecm_text_is(n, "mode", "add", true);
  return *adds || ecm_text_is(n, "mode", "update", false)
             ? (uint32_t)EC_BACKEND_OK
             : ecm_refuse(n, "mode is neither add nor update");
}

static uint32_t put(ecm_node *n, int64_t data, int64_t list) {
  int64_t args[4] = {data, list, 0, 0};
  bool adds = false;
  EC_BACKEND_TRY(read_mode(n, &adds));
  EC_BACKEND_TRY(ecm_input(n, "updates", &args[2]));
  args[3] = ect_add_bool(&n->g->program, adds);
  return ecm_finish(n, "aten::index_put.out", args, 4);
}

uint32_t ecm_call_scatter(ecm_node *n) {
  int64_t data = 0, indices = 0, axis = 0;
  ect_tensor x, t;
  EC_BACKEND_TRY(ecm_typed(n, "data", &data, &x));
  EC_BACKEND_TRY(ecm_axis(n, "axis", 0, x.rank, &axis));
  EC_BACKEND_TRY(read_indices(n, EC_DTYPE_INT32, &indices, &t));
  return put(n, data, index_list(n, axis, indices));
}

uint32_t ecm_call_scatter_nd(ecm_node *n) {
  int64_t data = 0, list = 0;
  ect_tensor x;
  EC_BACKEND_TRY(ecm_typed(n, "data", &data, &x));
  EC_BACKEND_TRY(split_positions(n, x.rank, &list));
  return put(n, data, list);
}

uint32_t ecm_call_scatter_along(ecm_node *n) {
  int64_t args[4], axis = 0;
  ect_tensor x;
  bool adds = false;
  EC_BACKEND_TRY(ecm_typed(n, "data", &args[0], &x));
  EC_BACKEND_TRY(ecm_axis(n, "axis", 0, x.rank, &axis));
  EC_BACKEND_TRY(read_along(n, &x, axis, &args[2]));
  EC_BACKEND_TRY(read_mode(n, &adds));
  EC_BACKEND_TRY(ecm_input(n, "updates", &args[3]));
  args[1] = ect_add_int(&n->g->program, axis);
  return ecm_finish(n, adds ? "aten::scatter_add.out" : "aten::scatter.src_out", args, 4);
}

/* ---- order ----------------------------------------------------------------------------------- */

/* Converts positions, int64 in ATen, to the result's dtype. */
static uint32_t finish_positions(ecm_node *n, int64_t from, int64_t to) {
  const int64_t args[] = {from, ect_add_bool(&n->g->program, false)};
  return ecm_call_op(n, "aten::_to_copy.out", args, 2, &to, 1, true);
}

static uint32_t find_extreme(ecm_node *n, const char *op) {
  ect_program *p = &n->g->program;
  int64_t args[3], position = 0, axis = 0;
  ect_tensor x, t = n->type;
  double keep = 0;
  EC_BACKEND_TRY(ecm_typed(n, "x", &args[0], &x));
  EC_BACKEND_TRY(ecm_axis(n, "axis", -1, x.rank, &axis));
  EC_BACKEND_TRY(ecm_number(n, "keep_dims", 0, &keep));
  args[1] = ect_add_int(p, axis);
  args[2] = ect_add_bool(p, keep != 0);
  t.dtype = EC_DTYPE_INT64;
  EC_BACKEND_TRY(ecm_step(n, op, args, 3, &t, &position));
  return finish_positions(n, position, n->result);
}

uint32_t ecm_call_argmax(ecm_node *n) { return find_extreme(n, "aten::argmax.out"); }

uint32_t ecm_call_argmin(ecm_node *n) { return find_extreme(n, "aten::argmin.out"); }

uint32_t ecm_call_argsort(ecm_node *n) {
  ect_program *p = &n->g->program;
  int64_t x = 0, axis = 0;
  ect_tensor t;
  double ascending = 0;
  EC_BACKEND_TRY(ecm_typed(n, "x", &x, &t));
  EC_BACKEND_TRY(ecm_axis(n, "axis", -1, t.rank, &axis));
  EC_BACKEND_TRY(ecm_number(n, "ascending", 0, &ascending));
  const int64_t args[] = {x, ect_add_int(p, axis), ect_add_bool(p, ascending == 0)};
  const int64_t outs[] = {ecm_add_like(n, &t, t.dtype), ecm_add_like(n, &t, EC_DTYPE_INT64)};
  EC_BACKEND_TRY(ecm_call_op(n, "aten::sort.values", args, 3, outs, 2, false));
  return finish_positions(n, outs[1], n->result);
}

uint32_t ecm_call_topk(ecm_node *n) {
  ect_program *p = &n->g->program;
  int64_t args[5], results[ECM_MAX_VALUES], axis = 0;
  ect_tensor x, t;
  size_t count = 0;
  double k = 1, ascending = 0;
  EC_BACKEND_TRY(ecm_typed(n, "x", &args[0], &x));
  EC_BACKEND_TRY(ecm_number(n, "k", 1, &k));
  EC_BACKEND_TRY(ecm_axis(n, "axis", -1, x.rank, &axis));
  EC_BACKEND_TRY(ecm_number(n, "ascending", 0, &ascending));
  EC_BACKEND_TRY(ecm_results(n, results, &count));
  if (!count || count > 2 || !ect_tensor_at(p, results[0]))
    return ecm_refuse(n, "the results are not values and indices");
  t = *ect_tensor_at(p, results[0]);
  args[1] = ect_add_int(p, ecm_to_int(k));
  args[2] = ect_add_int(p, axis);
  args[3] = ect_add_bool(p, ascending == 0);
  args[4] = ect_add_bool(p, true);
  const int64_t outs[] = {results[0], ecm_add_like(n, &t, EC_DTYPE_INT64)};
  const bool has_indices = count == 2;
  if (has_indices) {
    const int64_t convert[] = {outs[1], ect_add_bool(p, false)};
    EC_BACKEND_TRY(ecm_call_op(n, "aten::topk.values", args, 5, outs, 2, true));
    return ecm_call_op(n, "aten::_to_copy.out", convert, 2, &results[1], 1, false);
  }
  return ecm_call_op(n, "aten::topk.values", args, 5, outs, 2, true);
}

uint32_t ecm_call_one_hot(ecm_node *n) {
  ect_program *p = &n->g->program;
  int64_t indices = 0, axis = 0, numbers = 0, choice[3];
  ect_tensor t, range = {.dtype = EC_DTYPE_INT32}, mask = n->type;
  static const char *const names[] = {"on_value", "off_value"};
  EC_BACKEND_TRY(ecm_typed(n, "indices", &indices, &t));
  EC_BACKEND_TRY(ecm_axis(n, "axis", -1, n->type.rank, &axis));
  if (axis >= n->type.rank || t.rank + 1 != n->type.rank)
    return ecm_refuse(n, "the result does not have one dimension more than indices");
  range.rank = n->type.rank - (uint32_t)axis;
  for (uint32_t d = 0; d < range.rank; d++) range.sizes[d] = d ? 1 : n->type.sizes[axis];
  const int64_t vector[] = {ect_add_int(p, range.sizes[0])};
  const ect_tensor flat = {.dtype = range.dtype, .rank = 1, .sizes = {range.sizes[0]}};
  EC_BACKEND_TRY(ecm_step(n, "aten::arange.out", vector, 1, &flat, &numbers));
  const int64_t view[] = {numbers, ect_add_ints(p, range.sizes, range.rank)};
  EC_BACKEND_TRY(ecm_step(n, "aten::view_copy.out", view, 2, &range, &numbers));
  mask.dtype = t.dtype;
  mask.sizes[axis] = 1;
  const int64_t wider[] = {indices, ect_add_int(p, axis)};
  EC_BACKEND_TRY(ecm_step(n, "aten::unsqueeze_copy.out", wider, 2, &mask, &indices));
  mask = n->type;
  mask.dtype = EC_DTYPE_BOOL;
  const int64_t equal[] = {indices, numbers};
  EC_BACKEND_TRY(ecm_step(n, "aten::eq.Tensor_out", equal, 2, &mask, &choice[0]));
  for (size_t i = 0; i < 2; i++) {
    double value = 0;
    const ect_tensor scalar = {.dtype = n->type.dtype};
    EC_BACKEND_TRY(ecm_number(n, names[i], i == 0, &value));
    const int64_t number = ect_add_double(p, value);
    EC_BACKEND_TRY(ecm_step(n, "aten::scalar_tensor.out", &number, 1, &scalar, &choice[1 + i]));
  }
  return ecm_finish(n, "aten::where.self_out", choice, 3);
}
