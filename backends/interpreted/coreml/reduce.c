/* Reductions that need more than a row. */
#include <float.h>

#include "special.h"

/* Reads the axes to reduce; without any, all of them. */
static uint32_t read_axes(ecm_node *n, uint32_t rank, bool *reduced, size_t *count) {
  int64_t axes[ECT_MAX_RANK];
  EC_BACKEND_TRY(ecm_numbers(n, "axes", axes, ECT_MAX_RANK, count));
  for (size_t i = 0; i < *count; i++) {
    const int64_t axis = axes[i] < 0 ? axes[i] + rank : axes[i];
    if (axis < 0 || axis >= rank || reduced[axis]) return ecm_refuse(n, "an axis is wrong");
    reduced[axis] = true;
  }
  for (uint32_t d = 0; !*count && d < rank; d++) reduced[d] = true;
  if (!*count) *count = rank;
  return EC_BACKEND_OK;
}

/* One axis after the other, the last one first, so that the others keep their numbers. */
uint32_t ecm_call_prod(ecm_node *n) {
  ect_program *p = &n->g->program;
  int64_t x = 0;
  bool reduced[ECT_MAX_RANK] = {false};
  ect_tensor t;
  size_t count = 0, done = 0;
  double keep = 0;
  EC_BACKEND_TRY(ecm_typed(n, "x", &x, &t));
  EC_BACKEND_TRY(read_axes(n, t.rank, reduced, &count));
  EC_BACKEND_TRY(ecm_number(n, "keep_dims", 0, &keep));
  for (uint32_t d = t.rank; d-- > 0;) {
    if (!reduced[d]) continue;
    const int64_t args[] = {x, ect_add_int(p, d), ect_add_bool(p, keep != 0)};
    if (++done == count) return ecm_finish(n, "aten::prod.int_out", args, 3);
    if (keep == 0) t.rank--;
    for (uint32_t k = d; keep == 0 && k < t.rank; k++) t.sizes[k] = t.sizes[k + 1];
    if (keep != 0) t.sizes[d] = 1;
    EC_BACKEND_TRY(ecm_step(n, "aten::prod.int_out", args, 3, &t, &x));
  }
  return ecm_finish(n, "aten::clone.out", &x, 1);
}

/* log(sum(exp(x - m))) + m of the greatest element m, which is made finite: the difference of two
 * infinities is NaN. */
uint32_t ecm_call_log_sum_exp(ecm_node *n) {
  ect_program *p = &n->g->program;
  int64_t x = 0, axes[ECT_MAX_RANK], greatest = 0, difference = 0, sum = 0;
  ect_tensor t;
  size_t count = 0;
  double keep = 0;
  EC_BACKEND_TRY(ecm_typed(n, "x", &x, &t));
  EC_BACKEND_TRY(ecm_numbers(n, "axes", axes, ECT_MAX_RANK, &count));
  EC_BACKEND_TRY(ecm_number(n, "keep_dims", 0, &keep));
  const double limit = t.dtype == EC_DTYPE_FLOAT16 ? 65504 : FLT_MAX;
  const int64_t low = ect_add_double(p, -limit), high = ect_add_double(p, limit);
  const int64_t list = ect_add_ints(p, axes, count), is_kept = ect_add_bool(p, keep != 0);
  const int64_t wide[] = {x, list, ect_add_bool(p, true)}, narrow[] = {x, list, is_kept};
  const ect_tensor *types[] = {&t, NULL};
  int64_t finite[2];
  for (int i = 0; i < 2; i++) {
    EC_BACKEND_TRY(ecm_step(n, "aten::amax.out", i ? narrow : wide, 3, types[i], &greatest));
    const int64_t bounds[] = {greatest, low, high};
    EC_BACKEND_TRY(ecm_step(n, "aten::clamp.out", bounds, 3, types[i], &finite[i]));
  }
  const int64_t one = ect_add_int(p, 1), terms[] = {x, finite[0], one};
  EC_BACKEND_TRY(ecm_step(n, "aten::sub.out", terms, 3, &t, &difference));
  int64_t sums[] = {0, list, is_kept, ect_add_none(p)};
  EC_BACKEND_TRY(ecm_step(n, "aten::exp.out", &difference, 1, &t, &sums[0]));
  EC_BACKEND_TRY(ecm_step(n, "aten::sum.IntList_out", sums, 4, NULL, &sum));
  int64_t logs[] = {0, finite[1], one};
  EC_BACKEND_TRY(ecm_step(n, "aten::log.out", &sum, 1, NULL, &logs[0]));
  return ecm_finish(n, "aten::add.out", logs, 3);
}

uint32_t ecm_call_cumsum(ecm_node *n) {
  ect_program *p = &n->g->program;
  int64_t x = 0, axis = 0;
  ect_tensor t;
  double exclusive = 0, reverse = 0;
  EC_BACKEND_TRY(ecm_typed(n, "x", &x, &t));
  EC_BACKEND_TRY(ecm_axis(n, "axis", 0, t.rank, &axis));
  EC_BACKEND_TRY(ecm_number(n, "exclusive", 0, &exclusive));
  EC_BACKEND_TRY(ecm_number(n, "reverse", 0, &reverse));
  if (exclusive != 0) return ecm_refuse(n, "exclusive is true");
  int64_t sums[] = {x, ect_add_int(p, axis)}, flips[] = {x, ect_add_ints(p, &axis, 1)};
  if (reverse == 0) return ecm_finish(n, "aten::cumsum.out", sums, 2);
  EC_BACKEND_TRY(ecm_step(n, "aten::flip.out", flips, 2, NULL, &sums[0]));
  EC_BACKEND_TRY(ecm_step(n, "aten::cumsum.out", sums, 2, NULL, &flips[0]));
  return ecm_finish(n, "aten::flip.out", flips, 2);
}
