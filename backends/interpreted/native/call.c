/* Nodes as calls. Targets are torch's names of functional or in-place operators
 * ("torch.ops.aten.relu_.default"); the runtime has their out variants. */
#include "call.h"

#include <stdio.h>
#include <string.h>

#include "../control.h"
#include "../pack.h"
#include "../rows.h"
#include "../translate.h"
#include "special.h"

static const ect_row rows[] = {
#include "operators.def"
};

enum { NAME_BYTES = 200 };

/* A call under construction. */
typedef struct packing {
  ect_graph *g;
  const ect_node *n;
  char name[NAME_BYTES]; /* functional: "aten.relu.default" of "torch.ops.aten.relu_.default" */
  char op[NAME_BYTES];
  ect_schema schema;
  int64_t args[ECT_MAX_ARGS], outs[ECT_MAX_ARGS];
  size_t arg_count, out_count;
} packing;

/* ---- names ----------------------------------------------------------------------------------- */

bool ecn_is_in_place(ect_text target) {
  const char *last = strrchr((const char *)target.data, '.');
  return last && last - (const char *)target.data > 2 && last[-1] == '_' && last[-2] != '_';
}

void ecn_name_node(const ect_graph *g, const ect_node *n, char *out, size_t size) {
  const bool is_named = g->method.size;
  snprintf(out, size, "%s%.*s%snode %u '%.*s' (%.*s)", is_named ? "method '" : "",
           ECT_CLIP(g->method, 40), is_named ? "', " : "", (unsigned)n->number,
           ECT_CLIP(n->name, 60), ECT_CLIP(n->op, 80));
}

/* Finds the functional operator of the target. */
static uint32_t find_name(packing *k) {
  static const char start[] = "torch.ops.";
  const char *target = (const char *)k->n->op.data, *name = target + sizeof start - 1;
  const bool in_place = ecn_is_in_place(k->n->op);
  if (strncmp(target, start, sizeof start - 1) != 0)
    return ect_refuse(k->g, EC_BACKEND_NOT_SUPPORTED, "the operator is not known here");
  const char *dot = strchr(name, '.'), *last = strrchr(name, '.');
  if (!dot || dot == last || strlen(name) >= sizeof k->name)
    return ect_refuse(k->g, EC_BACKEND_INVALID_PROGRAM,
                      "the target is not torch.ops.NAMESPACE.NAME.OVERLOAD");
  snprintf(k->name, sizeof k->name, "%.*s%s", (int)(last - name - in_place), name, last);
  return EC_BACKEND_OK;
}

static bool has_operator(packing *k) {
  return k->g->c.host->operator_schema(k->op, k->schema.text, sizeof k->schema.text) != 0;
}

/* Finds the out variant. */
static uint32_t find_operator(packing *k, const ect_row *row) {
  const char *dot = strchr(k->name, '.'), *overload = strrchr(k->name, '.');
  const int space = (int)(dot - k->name), base = (int)(overload - dot - 1);
  const bool plain = strcmp(overload, ".default") == 0;
  if (row) snprintf(k->op, sizeof k->op, "%s", row->op);
  else snprintf(k->op, sizeof k->op, "%.*s::%.*s%s_out", space, k->name, base, dot + 1, overload);
  if (!row && (plain || !has_operator(k)))
    snprintf(k->op, sizeof k->op, "%.*s::%.*s.out", space, k->name, base, dot + 1);
  if (!has_operator(k))
    return ect_refuse(k->g, EC_BACKEND_NOT_SUPPORTED, "the operator is not known here");
  return ect_schema_find(k->g->c.host, k->g->c.call, k->op, &k->schema);
}

/* ---- arguments ------------------------------------------------------------------------------- */

/* Finds the argument of a parameter. Names of devices, layouts and memory formats change no value:
 * those parameters take their default. */
static uint32_t read_argument(packing *k, uint32_t operand, const ect_parameter *parameter,
                              int64_t *out) {
  const ect_operand *o = &k->g->operands[operand];
  const char *name = parameter->name;
  const bool is_place =
      !strcmp(name, "device") || !strcmp(name, "layout") || !strcmp(name, "memory_format");
  if (o->kind == ECT_STRING && is_place) return EC_BACKEND_OK;
  if (o->kind != ECT_INT || o->name.size || !parameter->is_double)
    return ect_use(k->g, operand, out);
  *out = ect_add_double(&k->g->program, (double)(int64_t)o->bits);
  return EC_BACKEND_OK;
}

/* Reads the arguments in the order of the schema, by name. Those that out variants do not have
 * (dtype, layout, device, ...) are properties of the result. */
static uint32_t read_arguments(packing *k) {
  const ect_link *inputs = ect_inputs(k->g, k->n);
  for (size_t i = 0; i < k->schema.count; i++) {
    const ect_parameter *parameter = &k->schema.parameters[i];
    const ect_text name = ect_text_of(parameter->name);
    uint32_t at = 0;
    if (parameter->is_out) continue;
    while (at < k->n->input_count && !ect_text_equal(inputs[at].name, name)) at++;
    int64_t *arg = &k->args[k->arg_count++];
    *arg = ECT_NO_VALUE;
    if (at < k->n->input_count)
      EC_BACKEND_TRY(read_argument(k, inputs[at].operand, parameter, arg));
  }
  return EC_BACKEND_OK;
}

/* Reads all arguments in their order. */
static uint32_t use_inputs(packing *k) {
  k->arg_count = k->n->input_count;
  if (k->arg_count > ECT_MAX_ARGS)
    return ect_refuse(k->g, EC_BACKEND_INVALID_PROGRAM, "too many arguments");
  for (size_t i = 0; i < k->arg_count; i++)
    EC_BACKEND_TRY(ect_use(k->g, ect_inputs(k->g, k->n)[i].operand, &k->args[i]));
  return EC_BACKEND_OK;
}

static uint32_t add_results(packing *k) {
  for (uint32_t i = 0; i < k->n->output_count; i++) {
    const uint32_t operand = ect_outputs(k->g, k->n)[i].operand;
    const uint8_t kind = k->g->operands[operand].kind;
    if (k->out_count == ECT_MAX_ARGS)
      return ect_refuse(k->g, EC_BACKEND_NOT_SUPPORTED, "too many results");
    if (kind != ECT_TENSOR && kind != ECT_TENSOR_LIST)
      return ect_refuse(k->g, EC_BACKEND_NOT_SUPPORTED, "a result is a number");
    EC_BACKEND_TRY(ect_use(k->g, operand, &k->outs[k->out_count++]));
  }
  return EC_BACKEND_OK;
}

/* ---- calls ----------------------------------------------------------------------------------- */

/* An operator on numbers, with one result. */
static uint32_t call_number(packing *k, const char *op) {
  ec_backend_node node;
  if (k->n->input_count != 2 || k->n->output_count != 1)
    return ect_refuse(k->g, EC_BACKEND_INVALID_PROGRAM, "expected two arguments and one result");
  EC_BACKEND_TRY(use_inputs(k));
  const uint32_t result = ect_outputs(k->g, k->n)[0].operand;
  const uint8_t kind = k->g->operands[result].kind;
  if (kind != ECT_INT && kind != ECT_BOOL)
    return ect_refuse(k->g, EC_BACKEND_INVALID_PROGRAM, "the result is not an int or a bool");
  EC_BACKEND_TRY(ect_use(k->g, result, &k->args[2]));
  ect_add_call(&k->g->program, op, k->args, 3, ect_shown(k->g, k->n, &node));
  return EC_BACKEND_OK;
}

/* An operator of special.c, with one result. Its arguments are those of torch's schema, in
 * order. */
static uint32_t call_special(packing *k, ecn_special *function) {
  ec_backend_node node;
  EC_BACKEND_TRY(use_inputs(k));
  EC_BACKEND_TRY(add_results(k));
  if (k->out_count != 1 || !ect_tensor_at(&k->g->program, k->outs[0]))
    return ect_refuse(k->g, EC_BACKEND_INVALID_PROGRAM, "the result is not a tensor");
  return function(&(ecn_step){k->g, k->args, k->arg_count, k->outs[0],
                              ect_shown(k->g, k->n, &node)});
}

/* torch.cond: a predicate, two branches, and a list of their inputs. */
static uint32_t call_cond(ect_graph *g, const ect_node *n) {
  enum { PREDICATE, THEN, OTHERWISE, OPERANDS, PARTS };
  const ect_operand *parts[PARTS];
  int64_t condition;
  for (size_t i = 0; i < PARTS && n->input_count == PARTS; i++)
    parts[i] = &g->operands[ect_inputs(g, n)[i].operand];
  if (n->input_count != PARTS || parts[OPERANDS]->kind != ECT_TENSOR_LIST)
    return ect_refuse(g, EC_BACKEND_INVALID_PROGRAM,
                      "expected a predicate, two branches and a list of tensors");
  if (parts[PREDICATE]->kind != ECT_TENSOR && parts[PREDICATE]->kind != ECT_BOOL)
    return ect_refuse(g, EC_BACKEND_INVALID_PROGRAM,
                      "its predicate is neither a tensor nor a bool");
  if (parts[THEN]->kind != ECT_BLOCK || parts[OTHERWISE]->kind != ECT_BLOCK)
    return ect_refuse(g, EC_BACKEND_INVALID_PROGRAM, "a branch is not a graph");
  EC_BACKEND_TRY(ect_use(g, ect_inputs(g, n)[PREDICATE].operand, &condition));
  const ect_tensor *t = ect_tensor_at(&g->program, condition);
  if (t && t->dtype != EC_DTYPE_BOOL)
    return ect_refuse(g, EC_BACKEND_INVALID_PROGRAM, "its predicate is not a bool");
  const uint32_t blocks[] = {parts[THEN]->first, parts[OTHERWISE]->first};
  const uint32_t first = (uint32_t)g->link_count, count = parts[OPERANDS]->count;
  for (uint32_t i = 0; i < count; i++)
    EC_BACKEND_TRY(ect_add_link(g, (ect_text){0}, g->items[parts[OPERANDS]->first + i]));
  return ect_call_cond(g, n, condition, blocks, first, count);
}

/* Copies a value to state, or from state that will change. State is never an `out`: memory of those
 * is no state that methods share. */
static uint32_t copy(ect_graph *g, const ect_node *n) {
  ect_program *p = &g->program;
  int64_t from, to;
  ect_tensor t;
  EC_BACKEND_TRY(ect_use_tensor(g, ect_inputs(g, n)[0].operand, &from, &t));
  EC_BACKEND_TRY(ect_use_tensor(g, ect_outputs(g, n)[0].operand, &to, &t));
  if (t.role == ECT_STATE) {
    const int64_t args[] = {to, from, ect_add_bool(p, false), to};
    ect_add_call(p, "aten::copy_", args, 4, NULL);
  } else {
    ect_add_copy(p, from, to, NULL);
  }
  return EC_BACKEND_OK;
}

uint32_t ecn_translate(ect_graph *g, const ect_node *n) {
  packing k = {.g = g, .n = n};
  ec_backend_node node;
  if (!n->shown) return copy(g, n);
  if (ect_text_is(n->op, "torch.ops.higher_order.cond")) return call_cond(g, n);
  const ect_row *row = ECT_FIND_ROW(rows, ect_text_of(n->shown));
  if (row && row->kind == ECT_ROW_NUMBER) return call_number(&k, row->op);
  EC_BACKEND_TRY(find_name(&k));
  row = ECT_FIND_ROW(rows, ect_text_of(k.name));
  if (row && row->kind == ECT_ROW_SPECIAL) return call_special(&k, (ecn_special *)row->special);
  EC_BACKEND_TRY(find_operator(&k, row));
  EC_BACKEND_TRY(read_arguments(&k));
  EC_BACKEND_TRY(add_results(&k));
  return ect_call_op(g, k.op, k.args, k.arg_count, k.outs, k.out_count, ect_shown(g, n, &node));
}
