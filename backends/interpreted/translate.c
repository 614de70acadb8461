/* Inputs, nodes and outputs of a graph. */
#include "translate.h"

#include <stdio.h>

#include "pack.h"

/* ---- nodes ----------------------------------------------------------------------------------- */

/* Names the node under translation. */
static void set_node(ect_graph *g, const ect_node *n) {
  g->format->name(g, n, g->what, sizeof g->what);
}

uint32_t ect_check_defined(ect_graph *g, uint32_t operand) {
  const ect_operand *o = &g->operands[operand];
  char name[ECT_NOTE_BYTES];
  const bool is_list = o->kind == ECT_TENSOR_LIST || o->kind == ECT_OPTIONAL_TENSOR_LIST;
  for (uint32_t i = 0; is_list && i < o->count; i++) {
    const uint32_t item = g->items[o->first + i];
    if (item == ECT_ABSENT || g->operands[item].kind != ECT_TENSOR) continue;
    EC_BACKEND_TRY(ect_check_defined(g, item));
  }
  if (o->is_defined || o->group != ECT_ABSENT) return EC_BACKEND_OK;
  return ect_refuse(g, EC_BACKEND_INVALID_PROGRAM, "%s is read before a call computes it",
                    ect_operand_name(g, operand, name));
}

/* Marks results, and items of those that are lists. */
static void define(ect_graph *g, uint32_t operand) {
  ect_operand *o = &g->operands[operand];
  o->is_defined = true;
  if (o->kind != ECT_TENSOR_LIST) return;
  for (uint32_t i = 0; i < o->count; i++)
    if (g->items[o->first + i] != ECT_ABSENT) g->operands[g->items[o->first + i]].is_defined = true;
}

static uint32_t translate_node(ect_graph *g, const ect_node *n) {
  set_node(g, n);
  for (uint32_t i = 0; i < n->input_count; i++)
    EC_BACKEND_TRY(ect_check_defined(g, ect_inputs(g, n)[i].operand));
  EC_BACKEND_TRY(g->format->translate(g, n));
  if (g->program.failed)
    return ect_refuse(g, EC_BACKEND_ALLOCATION_FAILED, "no memory for its calls");
  for (uint32_t i = 0; i < n->output_count; i++) define(g, ect_outputs(g, n)[i].operand);
  return EC_BACKEND_OK;
}

uint32_t ect_translate_block(ect_graph *g, uint32_t block, const ect_node *n) {
  for (uint32_t at = g->blocks[block].first_node; at != ECT_ABSENT; at = g->nodes[at].next)
    EC_BACKEND_TRY(translate_node(g, &g->nodes[at]));
  if (n) set_node(g, n);
  return EC_BACKEND_OK;
}

const ec_backend_node *ect_shown(const ect_graph *g, const ect_node *n, ec_backend_node *out) {
  *out = (ec_backend_node){n->number, n->shown, 0};
  return g->depth ? NULL : out;
}

uint32_t ect_call_op(ect_graph *g, const char *op, const int64_t *args, size_t count,
                  const int64_t *outs, size_t out_count, const ec_backend_node *shown) {
  return ect_pack_call(g->c.call, &g->program, op, args, count, outs, out_count, shown, g->what);
}

/* ---- inputs and outputs ---------------------------------------------------------------------- */

/* Adds a tensor of rank 0 for a number, and the call that copies one to the other. */
static uint32_t add_number(ect_graph *g, uint32_t operand, bool is_output) {
  ect_program *p = &g->program;
  int64_t value;
  EC_BACKEND_TRY(ect_use(g, operand, &value));
  const int64_t tensor = ect_add_tensor(p, &(ect_tensor){.dtype = EC_DTYPE_INT64});
  const int64_t args[] = {is_output ? value : tensor, is_output ? tensor : value};
  ect_add_call(p, is_output ? "aten::scalar_tensor.out" : "aten::_local_scalar_dense", args, 2,
               NULL);
  if (is_output) ect_add_output(p, tensor, -1);
  else ect_add_input(p, tensor, true);
  return EC_BACKEND_OK;
}

static bool is_float(int32_t dtype) {
  return dtype == EC_DTYPE_FLOAT16 || dtype == EC_DTYPE_BFLOAT16 || dtype == EC_DTYPE_FLOAT32 ||
         dtype == EC_DTYPE_FLOAT64;
}

static bool is_unsigned(int32_t dtype) {
  return dtype == EC_DTYPE_BOOL || dtype == EC_DTYPE_UINT8 || dtype == EC_DTYPE_UINT16 ||
         dtype == EC_DTYPE_UINT32 || dtype == EC_DTYPE_UINT64;
}

/* True if a dtype has all numbers of another one. */
static bool holds(int32_t to, int32_t from) {
  const size_t room = ec_backend_dtype_size(to), size = ec_backend_dtype_size(from);
  if (from == EC_DTYPE_BOOL) return true;
  if (to == EC_DTYPE_BOOL || is_float(to) != is_float(from)) return false;
  if (is_float(to) || (is_unsigned(from) && !is_unsigned(to))) return room > size;
  return is_unsigned(to) == is_unsigned(from) && room >= size;
}

/* Adds an argument of the delegate: a number, or a tensor, perhaps of another dtype than the
 * graph's. */
static uint32_t add_argument(ect_graph *g, uint32_t operand, bool is_output) {
  ect_program *p = &g->program;
  ect_operand *o = &g->operands[operand];
  ect_tensor t;
  int64_t value;
  if (is_output) EC_BACKEND_TRY(ect_check_defined(g, operand));
  if (o->kind == ECT_INT) return add_number(g, operand, is_output);
  EC_BACKEND_TRY(ect_use_tensor(g, operand, &value, &t));
  if (!is_output && t.role != ECT_COMPUTED)
    return ect_refuse_as(g, EC_BACKEND_INVALID_PROGRAM, " is a constant");
  o->is_defined = true;
  const bool same = o->border_type < 0 || o->border_type == t.dtype;
  const int64_t argument = same ? value : ect_add_like(p, &t, o->border_type);
  if (!same) ect_add_copy(p, is_output ? value : argument, is_output ? argument : value, NULL);
  const bool is_narrowed = !same && !holds(o->border_type, t.dtype);
  if (is_output) ect_add_output(p, argument, is_narrowed ? o->border_type : -1);
  else ect_add_input(p, argument, false);
  return EC_BACKEND_OK;
}

uint32_t ect_translate(ect_graph *g) {
  const ect_block b = g->blocks[0];
  g->blocks[0].is_used = true;
  for (uint32_t i = 0; i < b.input_count; i++) {
    snprintf(g->what, sizeof g->what, "input %u", (unsigned)i);
    EC_BACKEND_TRY(add_argument(g, g->links[b.first_input + i].operand, false));
  }
  EC_BACKEND_TRY(ect_translate_block(g, 0, NULL));
  for (uint32_t i = 0; i < b.output_count; i++) {
    snprintf(g->what, sizeof g->what, "output %u", (unsigned)i);
    EC_BACKEND_TRY(add_argument(g, g->links[b.first_output + i].operand, true));
  }
  return EC_BACKEND_OK;
}
