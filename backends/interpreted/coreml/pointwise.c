/* Elementwise operators that are several of the runtime's. */
#include "special.h"

/* Applies an operator with one tensor and at most one number. */
static uint32_t apply(ecm_node *n, const char *op, const double *number, int64_t *id) {
  int64_t args[2] = {*id, 0};
  if (number) args[1] = ect_add_double(&n->g->program, *number);
  return ecm_step(n, op, args, number ? 2 : 1, NULL, id);
}

/* ---- functions of x + epsilon ---------------------------------------------------------------- */

static uint32_t apply_shifted(ecm_node *n, double epsilon, const char *op) {
  int64_t x = 0;
  EC_BACKEND_TRY(ecm_input(n, "x", &x));
  EC_BACKEND_TRY(ecm_number(n, "epsilon", epsilon, &epsilon));
  if (epsilon != 0) EC_BACKEND_TRY(apply(n, "aten::add.Scalar_out", &epsilon, &x));
  return ecm_finish(n, op, &x, 1);
}

uint32_t ecm_call_log(ecm_node *n) { return apply_shifted(n, 1e-45, "aten::log.out"); }

uint32_t ecm_call_rsqrt(ecm_node *n) { return apply_shifted(n, 1e-12, "aten::rsqrt.out"); }

uint32_t ecm_call_inverse(ecm_node *n) { return apply_shifted(n, 1e-4, "aten::reciprocal.out"); }

/* ---- activations ----------------------------------------------------------------------------- */

/* x * sigmoid(slope * x) */
static uint32_t times_sigmoid(ecm_node *n, const double *slope) {
  int64_t args[2];
  EC_BACKEND_TRY(ecm_input(n, "x", &args[0]));
  args[1] = args[0];
  if (slope) EC_BACKEND_TRY(apply(n, "aten::mul.Scalar_out", slope, &args[1]));
  EC_BACKEND_TRY(apply(n, "aten::sigmoid.out", NULL, &args[1]));
  return ecm_finish(n, "aten::mul.out", args, 2);
}

uint32_t ecm_call_silu(ecm_node *n) { return times_sigmoid(n, NULL); }

uint32_t ecm_call_gelu(ecm_node *n) {
  static const double slope = 1.702;
  int64_t args[2];
  if (ecm_text_is(n, "mode", "SIGMOID_APPROXIMATION", false)) return times_sigmoid(n, &slope);
  const bool tanh = ecm_text_is(n, "mode", "TANH_APPROXIMATION", false);
  if (!tanh && !ecm_text_is(n, "mode", "EXACT", true))
    return ecm_refuse(n, "mode is none of EXACT, TANH_APPROXIMATION and SIGMOID_APPROXIMATION");
  EC_BACKEND_TRY(ecm_input(n, "x", &args[0]));
  args[1] = ect_add_string(&n->g->program, tanh ? "tanh" : "none", 4);
  return ecm_finish(n, "aten::gelu.out", args, 2);
}

/* x where it is at least alpha, else 0 */
uint32_t ecm_call_thresholded_relu(ecm_node *n) {
  ect_program *p = &n->g->program;
  int64_t x = 0, args[3];
  double alpha = 1;
  ect_tensor mask = n->type;
  const ect_tensor scalar = {.dtype = n->type.dtype};
  mask.dtype = EC_DTYPE_BOOL;
  EC_BACKEND_TRY(ecm_input(n, "x", &x));
  EC_BACKEND_TRY(ecm_number(n, "alpha", 1, &alpha));
  const int64_t compare[] = {x, ect_add_double(p, alpha)}, zero = ect_add_double(p, 0);
  EC_BACKEND_TRY(ecm_step(n, "aten::ge.Scalar_out", compare, 2, &mask, &args[0]));
  args[1] = x;
  EC_BACKEND_TRY(ecm_step(n, "aten::scalar_tensor.out", &zero, 1, &scalar, &args[2]));
  return ecm_finish(n, "aten::where.self_out", args, 3);
}

/* max(x, 0) + alpha * min(x, 0), alpha by channel */
uint32_t ecm_call_prelu(ecm_node *n) {
  ect_program *p = &n->g->program;
  int64_t x = 0, alpha = 0, args[2];
  ect_tensor t, slope;
  EC_BACKEND_TRY(ecm_typed(n, "x", &x, &t));
  EC_BACKEND_TRY(ecm_typed(n, "alpha", &alpha, &slope));
  if (slope.rank != 1 || t.rank < 2) return ecm_refuse(n, "alpha is not one number by channel");
  slope.rank = t.rank - 1;
  for (uint32_t d = 1; d < slope.rank; d++) slope.sizes[d] = 1;
  const int64_t view[] = {alpha, ect_add_ints(p, slope.sizes, slope.rank)};
  EC_BACKEND_TRY(ecm_step(n, "aten::view_copy.out", view, 2, &slope, &alpha));
  args[0] = x;
  EC_BACKEND_TRY(apply(n, "aten::relu.out", NULL, &args[0]));
  const int64_t low[] = {x, ect_add_none(p), ect_add_double(p, 0)};
  EC_BACKEND_TRY(ecm_step(n, "aten::clamp.out", low, 3, NULL, &x));
  const int64_t product[] = {x, alpha};
  EC_BACKEND_TRY(ecm_step(n, "aten::mul.out", product, 2, NULL, &args[1]));
  return ecm_finish(n, "aten::add.out", args, 2);
}

/* ---- constants ------------------------------------------------------------------------------- */

uint32_t ecm_call_fill(ecm_node *n) {
  ect_program *p = &n->g->program;
  int64_t args[2], sizes[ECT_MAX_RANK];
  double value = 0;
  size_t count = 0;
  EC_BACKEND_TRY(ecm_ints(n, "shape", sizes, ECT_MAX_RANK, &count));
  EC_BACKEND_TRY(ecm_number(n, "value", 0, &value));
  args[0] = ect_add_list(p, ECT_INT_LIST, sizes, count);
  args[1] = ect_add_double(p, value);
  return ecm_finish(n, "aten::full.out", args, 2);
}
