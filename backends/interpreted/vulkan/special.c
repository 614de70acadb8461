/* Calls of payloads that are not a single operator of the runtime. */
#include "special.h"

#include <float.h>
#include <math.h>

#include "../translate.h"

uint32_t ecv_check_count(ect_graph *g, const ect_node *n, uint32_t wanted) {
  if (n->input_count + 1 == wanted) return EC_BACKEND_OK;
  return ect_refuse_as(g, EC_BACKEND_INVALID_PROGRAM, " has %u values, expected %u",
                       (unsigned)n->input_count + 1, (unsigned)wanted);
}

uint32_t ecv_use_all(ect_graph *g, const ect_node *n, uint32_t count, int64_t *out) {
  EC_BACKEND_TRY(ecv_check_count(g, n, count));
  for (uint32_t i = 0; i < count; i++)
    EC_BACKEND_TRY(ect_use(g, ect_inputs(g, n)[i].operand, &out[i]));
  return EC_BACKEND_OK;
}

/* Finds the only result, a tensor. */
static uint32_t use_result(ect_graph *g, const ect_node *n, int64_t *out, ect_tensor *t) {
  return ect_use_tensor(g, ect_outputs(g, n)[0].operand, out, t);
}

uint32_t ecv_call_nothing(ect_graph *g, const ect_node *n) {
  (void)g;
  (void)n;
  return EC_BACKEND_OK;
}

/* A prepacked constant is not a call (call.c); anything else is copied. */
uint32_t ecv_call_prepack(ect_graph *g, const ect_node *n) {
  int64_t from, to;
  ect_tensor t;
  ec_backend_node node;
  EC_BACKEND_TRY(ecv_check_count(g, n, 2));
  EC_BACKEND_TRY(use_result(g, n, &to, &t));
  if (!n->shown) return EC_BACKEND_OK;
  EC_BACKEND_TRY(ect_use_tensor(g, ect_inputs(g, n)[0].operand, &from, &t));
  ect_add_copy(&g->program, from, to, ect_shown(g, n, &node));
  return EC_BACKEND_OK;
}

/* select_as_symint(x, dim, index): an element as a number. */
uint32_t ecv_call_select_number(ect_graph *g, const ect_node *n) {
  int64_t args[4];
  ect_tensor element;
  ec_backend_node node;
  EC_BACKEND_TRY(ecv_use_all(g, n, 4, args));
  EC_BACKEND_TRY(ect_use_tensor(g, ect_inputs(g, n)[0].operand, &args[0], &element));
  const ect_value *dim = ect_value_at(&g->program, args[1]);
  int64_t at = dim->kind == ECT_INT ? dim->as.i : 0;
  if (at < 0) at += element.rank;
  if (at < 0 || at >= element.rank)
    return ect_refuse(g, EC_BACKEND_INVALID_PROGRAM, "dimension %d of a tensor of rank %u", (int)at,
                      (unsigned)element.rank);
  element.rank--;
  for (uint32_t d = (uint32_t)at; d < element.rank; d++) element.sizes[d] = element.sizes[d + 1];
  const int64_t one = ect_add_like(&g->program, &element, element.dtype);
  const int64_t select[] = {args[0], args[1], args[2], one}, item[] = {one, args[3]};
  ect_add_call(&g->program, "aten::select_copy.int_out", select, 4, NULL);
  ect_add_call(&g->program, "aten::_local_scalar_dense", item, 2, ect_shown(g, n, &node));
  return EC_BACKEND_OK;
}

/* True for None, and for bounds beyond float32: the exporter writes DBL_MAX for none. */
static bool is_unbounded(const ect_graph *g, int64_t value) {
  const ect_value *v = ect_value_at(&g->program, value);
  return v->kind == ECT_NONE || (v->kind == ECT_DOUBLE && fabs(v->as.d) > (double)FLT_MAX);
}

/* conv_with_clamp(arguments of convolution, min, max). */
uint32_t ecv_call_clamped_convolution(ect_graph *g, const ect_node *n) {
  enum { CONVOLUTION = 9, ALL = 12 };
  int64_t args[ALL], result;
  ect_tensor out;
  ec_backend_node node;
  EC_BACKEND_TRY(ecv_use_all(g, n, ALL, args));
  EC_BACKEND_TRY(use_result(g, n, &result, &out));
  for (int i = CONVOLUTION; i < ALL - 1; i++)
    if (is_unbounded(g, args[i])) args[i] = ect_add_none(&g->program);
  const bool clamps = !is_unbounded(g, args[9]) || !is_unbounded(g, args[10]);
  const int64_t product = clamps ? ect_add_like(&g->program, &out, out.dtype) : result;
  const ec_backend_node *shown = ect_shown(g, n, &node);
  EC_BACKEND_TRY(ect_call_op(g, "aten::convolution.out", args, CONVOLUTION, &product, 1,
                             clamps ? NULL : shown));
  const int64_t clamp[] = {product, args[9], args[10], result};
  if (clamps) ect_add_call(&g->program, "aten::clamp.out", clamp, 4, shown);
  return EC_BACKEND_OK;
}

/* binary_..._with_clamp(a, b, min, max), which ExecuTorch 1.0 fuses. */
static uint32_t call_clamped(ect_graph *g, const ect_node *n, const char *op, bool has_alpha) {
  enum { RESULT = 4 };
  int64_t args[RESULT + 1], result;
  ect_tensor out;
  ec_backend_node node;
  EC_BACKEND_TRY(ecv_use_all(g, n, RESULT + 1, args));
  EC_BACKEND_TRY(use_result(g, n, &result, &out));
  const int64_t value = ect_add_like(&g->program, &out, out.dtype);
  const int64_t operands[] = {args[0], args[1], has_alpha ? ect_add_int(&g->program, 1) : 0};
  for (int i = 2; i < RESULT; i++)
    if (is_unbounded(g, args[i])) args[i] = ect_add_none(&g->program);
  const int64_t clamp[] = {value, args[2], args[3], result};
  EC_BACKEND_TRY(ect_call_op(g, op, operands, has_alpha ? 3 : 2, &value, 1, NULL));
  ect_add_call(&g->program, "aten::clamp.out", clamp, 4, ect_shown(g, n, &node));
  return EC_BACKEND_OK;
}

uint32_t ecv_call_clamped_sum(ect_graph *g, const ect_node *n) {
  return call_clamped(g, n, "aten::add.out", true);
}

uint32_t ecv_call_clamped_difference(ect_graph *g, const ect_node *n) {
  return call_clamped(g, n, "aten::sub.out", true);
}

uint32_t ecv_call_clamped_product(ect_graph *g, const ect_node *n) {
  return call_clamped(g, n, "aten::mul.out", false);
}

uint32_t ecv_call_clamped_quotient(ect_graph *g, const ect_node *n) {
  return call_clamped(g, n, "aten::div.out", false);
}

uint32_t ecv_refuse_former(ect_graph *g, const ect_node *n) {
  (void)n;
  return ect_refuse(g, EC_BACKEND_NOT_SUPPORTED,
                    "ExecuTorch 1.0 and 1.1 wrote this operator, which later releases replaced: "
                    "export the model again");
}

/* max_pool2d(self, kernel_size, stride, padding, dilation, ceil_mode), without indices. */
uint32_t ecv_call_max_pool(ect_graph *g, const ect_node *n) {
  int64_t args[7], outs[2];
  ect_tensor out;
  ec_backend_node node;
  EC_BACKEND_TRY(ecv_use_all(g, n, 7, args));
  EC_BACKEND_TRY(use_result(g, n, &outs[0], &out));
  outs[1] = ect_add_like(&g->program, &out, EC_DTYPE_INT64);
  return ect_call_op(g, "aten::max_pool2d_with_indices.out", args, 6, outs, 2,
                     ect_shown(g, n, &node));
}
