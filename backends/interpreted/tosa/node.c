/* Operands of nodes, and their calls. */
#include "node.h"

#include <string.h>

#include "../pack.h"
#include "../rows.h"
#include "../translate.h"

/* ---- operands -------------------------------------------------------------------------------- */

uint32_t ets_input(ect_graph *g, const ect_node *n, uint32_t index, const ect_operand **out) {
  *out = NULL;
  if (index >= n->input_count)
    return ect_refuse_as(g, EC_BACKEND_INVALID_PROGRAM, " has %u inputs, expected more",
                         (unsigned)n->input_count);
  *out = &g->operands[ect_inputs(g, n)[index].operand];
  return EC_BACKEND_OK;
}

uint32_t ets_tensor(ect_graph *g, const ect_node *n, uint32_t index, int64_t *out) {
  const ect_operand *o;
  ect_tensor t;
  *out = ECT_NO_VALUE;
  EC_BACKEND_TRY(ets_input(g, n, index, &o));
  return ect_use_tensor(g, ect_inputs(g, n)[index].operand, out, &t);
}

uint32_t ets_shape(ect_graph *g, const ect_node *n, uint32_t index, int64_t *out) {
  const ect_operand *o;
  EC_BACKEND_TRY(ets_input(g, n, index, &o));
  if (o->dtype != ETS_SHAPE)
    return ect_refuse(g, EC_BACKEND_INVALID_PROGRAM, "an input is not a shape");
  *out = ect_add_ints(&g->program, o->sizes, o->rank);
  return EC_BACKEND_OK;
}

const ect_operand *ets_attribute(const ect_graph *g, const ect_node *n, size_t attribute) {
  static const ect_operand none;
  return attribute < n->attribute_count ? &g->operands[ect_attributes(g, n)[attribute].operand]
                                        : &none;
}

int64_t ets_attribute_at(const ect_graph *g, const ect_node *n, size_t attribute, size_t index) {
  return ect_number_at(ets_attribute(g, n, attribute), index);
}

int64_t ets_list(ect_graph *g, const ect_node *n, size_t attribute) {
  int64_t items[ECT_MAX_RANK];
  const size_t all = ect_number_count(ets_attribute(g, n, attribute));
  const size_t count = all < ECT_MAX_RANK ? all : ECT_MAX_RANK;
  for (size_t i = 0; i < count; i++) items[i] = ets_attribute_at(g, n, attribute, i);
  return ect_add_ints(&g->program, items, count);
}

bool ets_is_float(uint32_t dtype) {
  return dtype == ETS_FP32 || dtype == ETS_FP16 || dtype == ETS_BF16;
}

int64_t ets_add_tensor(ect_graph *g, uint32_t dtype, uint32_t rank, const int64_t *sizes) {
  ect_tensor t = {.dtype = ets_scalar_type(dtype), .rank = rank};
  memcpy(t.sizes, sizes, rank * sizeof *sizes);
  return ect_add_tensor(&g->program, &t);
}

uint32_t ets_result(ect_graph *g, const ect_node *n, ect_operand **out) {
  *out = NULL;
  if (!n->output_count) return ect_refuse(g, EC_BACKEND_INVALID_PROGRAM, "no result");
  *out = &g->operands[ect_outputs(g, n)[0].operand];
  return EC_BACKEND_OK;
}

int64_t ets_convert(ect_graph *g, int64_t tensor, uint32_t from, uint32_t to) {
  return from == to ? tensor : ect_convert(&g->program, tensor, ets_scalar_type(to));
}

/* ---- calls ----------------------------------------------------------------------------------- */

uint32_t ets_define_results(ect_graph *g, const ect_node *n, int64_t *outs) {
  if (n->output_count > ECT_MAX_ARGS)
    return ect_refuse(g, EC_BACKEND_INVALID_PROGRAM, "too many results");
  for (uint32_t i = 0; i < n->output_count; i++) {
    ect_operand *o = &g->operands[ect_outputs(g, n)[i].operand];
    ect_tensor t;
    if (o->is_defined || o->data)
      return ect_refuse(g, EC_BACKEND_INVALID_PROGRAM,
                        "the result is a constant, an input or another result, too");
    EC_BACKEND_TRY(ect_use_tensor(g, ect_outputs(g, n)[i].operand, &outs[i], &t));
    o->is_defined = true;
  }
  return EC_BACKEND_OK;
}

uint32_t ets_call_op(ect_graph *g, const ect_node *n, const char *op, const int64_t *args,
                     size_t count) {
  int64_t outs[ECT_MAX_ARGS];
  ec_backend_node node;
  EC_BACKEND_TRY(ets_define_results(g, n, outs));
  return ect_call_op(g, op, args, count, outs, n->output_count, ect_shown(g, n, &node));
}

uint32_t ets_call_step(ect_graph *g, const char *op, const int64_t *args, size_t count,
                       int64_t result) {
  return ect_call_op(g, op, args, count, &result, 1, NULL);
}

uint32_t ets_permute(ect_graph *g, int64_t tensor, const int64_t *order, int64_t *out) {
  if (g->program.failed) return ect_refuse(g, EC_BACKEND_ALLOCATION_FAILED, "no memory");
  const ect_tensor *t = ect_tensor_at(&g->program, tensor);
  ect_tensor permuted = {.dtype = t->dtype, .rank = t->rank};
  for (uint32_t d = 0; d < t->rank; d++) permuted.sizes[d] = t->sizes[order[d]];
  *out = ect_add_tensor(&g->program, &permuted);
  const int64_t args[] = {tensor, ect_add_ints(&g->program, order, permuted.rank)};
  return ets_call_step(g, "aten::permute_copy.out", args, 2, *out);
}
