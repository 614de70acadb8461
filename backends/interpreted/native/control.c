/* torch.cond. A branch is a subgraph, whose inputs are the operands in their order. */
#include "control.h"

#include "../pack.h"
#include "fields.h"

/* A node under translation. */
typedef struct cond {
  ecn_graph *g;
  const char *what;
  const ec_backend_node *shown;
  ecn_translate_fn *translate;
  ec_fb_vec inputs, outputs;
  int64_t *operands;
  int64_t results[ECT_MAX_ARGS];
} cond;

enum { PREDICATE, THEN, OTHERWISE, OPERANDS, PARTS };

#define INVALID(k, text)                                                                           \
  EC_BACKEND_FAIL(&(k)->g->c, EC_BACKEND_INVALID_PROGRAM, "%s: %s", (k)->what, text)

/* Returns an argument if its type is the expected one, or NULL. */
static ec_fb_table find_part(const cond *k, uint32_t part, uint8_t type) {
  const ec_fb_table arg = ec_fb_child(ec_fb_vec_table(k->inputs, part), ECN_NamedArgument_arg);
  return arg ? ec_fb_union(arg, ECN_Argument_value, type) : NULL;
}

/* Finds the value that decides: a tensor of one bool, or a bool. */
static uint32_t find_predicate(const cond *k, int64_t *out) {
  const ec_fb_table tensor = find_part(k, PREDICATE, ECN_TENSOR);
  const ec_fb_table number = find_part(k, PREDICATE, ECN_BOOL);
  if (!tensor && !number) return INVALID(k, "its predicate is neither a tensor nor a bool");
  const ect_text name = tensor ? ecn_text(tensor, ECN_TensorArg_name)
                               : ecn_text(number, ECN_BoolArg_ref);
  if (tensor || name.size) EC_BACKEND_TRY(ecn_find_value(k->g, name, out));
  else *out = ect_add_bool(&k->g->program, ec_fb_bool(number, ECN_BoolArg_value));
  const ect_tensor *t = ect_tensor_at(&k->g->program, *out);
  if (t ? t->dtype != EC_DTYPE_BOOL : ect_value_at(&k->g->program, *out)->kind != ECT_BOOL)
    return INVALID(k, "its predicate is not a bool");
  return EC_BACKEND_OK;
}

static uint32_t find_operands(const cond *k, ec_fb_vec names) {
  for (uint32_t i = 0; i < names.count; i++)
    EC_BACKEND_TRY(ecn_find_value(k->g, ecn_text_at(names, i), &k->operands[i]));
  return EC_BACKEND_OK;
}

static uint32_t add_results(cond *k) {
  if (!k->outputs.count || k->outputs.count > ECT_MAX_ARGS)
    return INVALID(k, "it has no results, or too many");
  for (uint32_t i = 0; i < k->outputs.count; i++) {
    const ec_fb_table output = ec_fb_vec_table(k->outputs, i);
    if (ec_fb_u8(output, ECN_Output_kind) != ECN_TENSOR_OUT)
      return INVALID(k, "a result is not a tensor");
    EC_BACKEND_TRY(ecn_add_tensor(k->g, ecn_text(output, ECN_Output_name), &k->results[i]));
  }
  return EC_BACKEND_OK;
}

/* Translates the nodes of the branch that has been entered, and copies its outputs. */
static uint32_t translate_branch(const cond *k, uint32_t operand_count) {
  const ecn_payload *p = &k->g->payload;
  if (p->inputs.count != operand_count || p->outputs.count != k->outputs.count)
    return INVALID(k, "a branch has other inputs or outputs than the node");
  for (uint32_t i = 0; i < operand_count; i++)
    EC_BACKEND_TRY(ecn_set_value(k->g, ecn_text_at(p->inputs, i), k->operands[i]));
  for (uint32_t i = 0; i < p->nodes.count; i++) EC_BACKEND_TRY(k->translate(k->g, i));
  ect_set_place(&k->g->program, "%s", k->what);
  for (uint32_t i = 0; i < p->outputs.count; i++) {
    int64_t from;
    EC_BACKEND_TRY(ecn_find_value(k->g, ecn_text_at(p->outputs, i), &from));
    const ect_tensor *t = ect_tensor_at(&k->g->program, from);
    if (!t || t->dtype != ect_tensor_at(&k->g->program, k->results[i])->dtype)
      return INVALID(k, "a branch's output is not a tensor of the result's dtype");
    ect_add_copy(&k->g->program, from, k->results[i],
                 i + 1 == p->outputs.count ? k->shown : NULL);
  }
  return EC_BACKEND_OK;
}

static uint32_t call_branch(const cond *k, uint32_t part, uint32_t operand_count) {
  const ec_fb_table argument = find_part(k, part, ECN_GRAPH);
  const ec_fb_table graph = argument ? ec_fb_child(argument, ECN_GraphArg_graph) : NULL;
  ecn_scope outer;
  if (!graph) return INVALID(k, "a branch is not a graph");
  uint32_t status = ecn_scope_enter(k->g, graph, &outer);
  if (status == EC_BACKEND_OK) status = translate_branch(k, operand_count);
  ecn_scope_leave(k->g, &outer);
  return status;
}

static uint32_t translate_cond(cond *k, ec_fb_vec operands) {
  ect_program *p = &k->g->program;
  int64_t predicate;
  EC_BACKEND_TRY(find_predicate(k, &predicate));
  EC_BACKEND_TRY(find_operands(k, operands));
  EC_BACKEND_TRY(add_results(k));
  const size_t skip = ect_add_jump(p, predicate);
  EC_BACKEND_TRY(call_branch(k, THEN, operands.count));
  const size_t leave = ect_add_leave(p);
  ect_set_target(p, skip);
  EC_BACKEND_TRY(call_branch(k, OTHERWISE, operands.count));
  ect_set_target(p, leave);
  return EC_BACKEND_OK;
}

uint32_t ecn_call_cond(ecn_graph *g, ec_fb_table node, const char *what,
                       const ec_backend_node *shown, ecn_translate_fn *translate) {
  cond k = {.g = g, .what = what, .shown = shown, .translate = translate,
            .inputs = ec_fb_vector(node, ECN_Node_inputs),
            .outputs = ec_fb_vector(node, ECN_Node_outputs)};
  const ec_fb_table list =
      k.inputs.count == PARTS ? find_part(&k, OPERANDS, ECN_TENSOR_LIST) : NULL;
  if (!list)
    return INVALID(&k, "expected a predicate, two branches and a list of tensors");
  const ec_fb_vec operands = ec_fb_vector(list, ECN_TensorListArg_names);
  k.operands = g->c.host->alloc((operands.count + 1u) * sizeof *k.operands);
  if (!k.operands)
    return EC_BACKEND_FAIL(&g->c, EC_BACKEND_ALLOCATION_FAILED, "%s: no memory for operands", what);
  const uint32_t status = translate_cond(&k, operands);
  g->c.host->free(k.operands);
  return status;
}
