/* Nodes as calls. Targets are torch's names of functional or in-place operators
 * ("torch.ops.aten.relu_.default"); the runtime has their out variants. */
#include "call.h"

#include <stdio.h>
#include <string.h>

#include "../pack.h"
#include "../rows.h"
#include "control.h"
#include "fields.h"
#include "special.h"

static const ect_row rows[] = {
#include "operators.def"
};

enum { NAME_BYTES = 200 };

/* A call under construction. */
typedef struct packing {
  ecn_graph *g;
  uint32_t index;
  ec_fb_vec inputs, outputs;
  char name[NAME_BYTES]; /* functional: "aten.relu.default" of "torch.ops.aten.relu_.default" */
  char op[NAME_BYTES];
  char what[NAME_BYTES];
  ect_schema schema;
  int64_t args[ECT_MAX_ARGS], outs[ECT_MAX_ARGS];
  size_t arg_count, out_count;
  bool in_place;
} packing;

#define REFUSE(k, status, text) EC_BACKEND_FAIL(&(k)->g->c, status, "%s: %s", (k)->what, text)

/* ---- names ----------------------------------------------------------------------------------- */

static const ect_row *find_row(const char *name) {
  return ECT_FIND_ROW(rows, ((ect_text){(const uint8_t *)name, strlen(name)}));
}

/* Finds the functional operator of the target. */
static uint32_t find_name(packing *k, const char *target) {
  static const char start[] = "torch.ops.";
  const char *name = target + sizeof start - 1;
  if (strncmp(target, start, sizeof start - 1) != 0)
    return REFUSE(k, EC_BACKEND_NOT_SUPPORTED, "the operator is not known here");
  const char *dot = strchr(name, '.'), *last = strrchr(name, '.');
  if (!dot || dot == last || strlen(name) >= sizeof k->name)
    return REFUSE(k, EC_BACKEND_INVALID_PROGRAM,
                  "the target is not torch.ops.NAMESPACE.NAME.OVERLOAD");
  k->in_place = last[-1] == '_' && last[-2] != '_';
  snprintf(k->name, sizeof k->name, "%.*s%s", (int)(last - name - k->in_place), name, last);
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
    return REFUSE(k, EC_BACKEND_NOT_SUPPORTED, "the operator is not known here");
  return ect_schema_find(k->g->c.host, k->g->c.call, k->op, &k->schema);
}

/* ---- arguments ------------------------------------------------------------------------------- */

/* Returns the value of a number, or of the value that its `ref` names. */
static uint32_t read_number(packing *k, uint8_t type, ec_fb_table table, bool is_double,
                            int64_t *out) {
  const ect_text ref = ecn_text(table, ECN_IntArg_ref);
  ect_program *p = &k->g->program;
  if (ref.size) return ecn_find_value(k->g, ref, out);
  if (type == ECN_FLOAT) *out = ect_add_double(p, ec_fb_f64(table, ECN_FloatArg_value));
  else if (type == ECN_BOOL) *out = ect_add_bool(p, ec_fb_bool(table, ECN_BoolArg_value));
  else if (is_double) *out = ect_add_double(p, (double)ec_fb_i64(table, ECN_IntArg_value));
  else *out = ect_add_int(p, ec_fb_i64(table, ECN_IntArg_value));
  return EC_BACKEND_OK;
}

/* Fills the items of a list of ints, some of which may be names of values. */
static uint32_t read_ints(packing *k, ec_fb_table table, int64_t *items) {
  const ec_fb_vec values = ec_fb_vector(table, ECN_IntListArg_values);
  const ec_fb_vec refs = ec_fb_vector(table, ECN_IntListArg_refs);
  for (uint32_t i = 0; i < values.count; i++) {
    const ect_text ref = i < refs.count ? ecn_text_at(refs, i) : (ect_text){0};
    if (ref.size) EC_BACKEND_TRY(ecn_find_value(k->g, ref, &items[i]));
    else items[i] = ect_add_int(&k->g->program, ec_fb_vec_i64(values, i));
  }
  return EC_BACKEND_OK;
}

/* Fills the items of a list of tensors; ECT_NO_VALUE for absent ones. */
static uint32_t read_tensors(packing *k, ec_fb_vec strings, ec_fb_vec present, int64_t *items) {
  for (uint32_t i = 0; i < strings.count; i++) {
    items[i] = ECT_NO_VALUE;
    if (i >= present.count || present.items[i])
      EC_BACKEND_TRY(ecn_find_value(k->g, ecn_text_at(strings, i), &items[i]));
  }
  return EC_BACKEND_OK;
}

static uint32_t fill_list(packing *k, uint8_t type, ec_fb_table table, int64_t *items,
                          int64_t *out) {
  static const uint8_t kinds[ECN_TYPES] = {
      [ECN_INT_LIST] = ECT_INT_LIST, [ECN_FLOAT_LIST] = ECT_DOUBLE_LIST,
      [ECN_BOOL_LIST] = ECT_BOOL_LIST, [ECN_TENSOR_LIST] = ECT_TENSOR_LIST,
      [ECN_OPTIONAL_TENSOR_LIST] = ECT_OPTIONAL_TENSOR_LIST};
  const ec_fb_vec first = ec_fb_vector(table, 0);
  const ec_fb_vec present = type == ECN_OPTIONAL_TENSOR_LIST ? ec_fb_vector(table, 1)
                                                             : (ec_fb_vec){0};
  if (type == ECN_INT_LIST) EC_BACKEND_TRY(read_ints(k, table, items));
  else if (type == ECN_FLOAT_LIST || type == ECN_BOOL_LIST)
    for (uint32_t i = 0; i < first.count; i++)
      items[i] = type == ECN_BOOL_LIST ? first.items[i] : ec_fb_vec_i64(first, i);
  else EC_BACKEND_TRY(read_tensors(k, first, present, items));
  *out = ect_add_list(&k->g->program, (ect_kind)kinds[type], items, first.count);
  return EC_BACKEND_OK;
}

static uint32_t read_list(packing *k, uint8_t type, ec_fb_table table, int64_t *out) {
  const ec_fb_vec first = ec_fb_vector(table, 0);
  int64_t *items = k->g->c.host->alloc((first.count + 1u) * sizeof *items);
  if (!items) return REFUSE(k, EC_BACKEND_ALLOCATION_FAILED, "no memory for a list");
  const uint32_t status = fill_list(k, type, table, items, out);
  k->g->c.host->free(items);
  return status;
}

/* Returns a text ("tanh"). Names of devices, layouts and memory formats change no value: those
 * parameters take their default. */
static int64_t read_text(packing *k, ec_fb_table table, const ect_parameter *parameter) {
  const ect_text text = ecn_text(table, ECN_StringArg_value);
  const char *name = parameter ? parameter->name : "";
  if (!strcmp(name, "device") || !strcmp(name, "layout") || !strcmp(name, "memory_format"))
    return ECT_NO_VALUE;
  return ect_add_string(&k->g->program, (const char *)text.data, text.size);
}

/* Reads an argument for a parameter. */
static uint32_t read_argument(packing *k, ec_fb_table named, const ect_parameter *parameter,
                              int64_t *out) {
  const ec_fb_table arg = ec_fb_child(named, ECN_NamedArgument_arg);
  const uint8_t type = arg ? ec_fb_u8(arg, ECN_Argument_value_type) : 0;
  const ec_fb_table table = type && type < ECN_TYPES ? ec_fb_child(arg, ECN_Argument_value) : NULL;
  if (!table) return REFUSE(k, EC_BACKEND_INVALID_PROGRAM, "an argument has no value");
  switch (type) {
  case ECN_TENSOR: return ecn_find_value(k->g, ecn_text(table, ECN_TensorArg_name), out);
  case ECN_NONE: *out = ect_add_none(&k->g->program); break;
  case ECN_STRING: *out = read_text(k, table, parameter); break;
  case ECN_INT:
  case ECN_FLOAT:
  case ECN_BOOL: return read_number(k, type, table, parameter && parameter->is_double, out);
  case ECN_SCALAR_TYPE:
    *out = ect_add_int(&k->g->program,
                       ecn_scalar_type(ec_fb_u8(table, ECN_ScalarTypeArg_value)));
    break;
  case ECN_GRAPH: return REFUSE(k, EC_BACKEND_INVALID_PROGRAM, "an argument is a graph");
  default: return read_list(k, type, table, out);
  }
  return EC_BACKEND_OK;
}

/* Reads the arguments in the order of the schema, by name. Those that out variants do not have
 * (dtype, layout, device, ...) are properties of the result. */
static uint32_t read_arguments(packing *k) {
  for (size_t i = 0; i < k->schema.count; i++) {
    const ect_parameter *parameter = &k->schema.parameters[i];
    if (parameter->is_out) continue;
    k->args[k->arg_count] = ECT_NO_VALUE;
    for (uint32_t n = 0; n < k->inputs.count; n++) {
      const ec_fb_table named = ec_fb_vec_table(k->inputs, n);
      if (!ecn_text_is(ecn_text(named, ECN_NamedArgument_name), parameter->name)) continue;
      EC_BACKEND_TRY(read_argument(k, named, parameter, &k->args[k->arg_count]));
      break;
    }
    k->arg_count++;
  }
  return EC_BACKEND_OK;
}

/* ---- results --------------------------------------------------------------------------------- */

/* Adds a result that is a list of tensors. */
static uint32_t add_list(packing *k, ec_fb_vec strings) {
  int64_t *items = k->g->c.host->alloc((strings.count + 1u) * sizeof *items);
  uint32_t status = EC_BACKEND_OK;
  if (!items) return REFUSE(k, EC_BACKEND_ALLOCATION_FAILED, "no memory for a list");
  for (uint32_t i = 0; status == EC_BACKEND_OK && i < strings.count; i++)
    status = ecn_add_tensor(k->g, ecn_text_at(strings, i), &items[i]);
  if (status == EC_BACKEND_OK)
    k->outs[k->out_count++] =
        ect_add_list(&k->g->program, ECT_TENSOR_LIST, items, strings.count);
  k->g->c.host->free(items);
  return status;
}

static uint32_t add_results(packing *k) {
  for (uint32_t i = 0; i < k->outputs.count; i++) {
    const ec_fb_table output = ec_fb_vec_table(k->outputs, i);
    const uint8_t kind = ec_fb_u8(output, ECN_Output_kind);
    if (k->out_count == ECT_MAX_ARGS)
      return REFUSE(k, EC_BACKEND_NOT_SUPPORTED, "too many results");
    if (kind == ECN_TENSOR_LIST_OUT)
      EC_BACKEND_TRY(add_list(k, ec_fb_vector(output, ECN_Output_names)));
    else if (kind == ECN_TENSOR_OUT)
      EC_BACKEND_TRY(
          ecn_add_tensor(k->g, ecn_text(output, ECN_Output_name), &k->outs[k->out_count++]));
    else return REFUSE(k, EC_BACKEND_NOT_SUPPORTED, "a result is a number");
  }
  return EC_BACKEND_OK;
}

/* Gives the names of arguments that an in-place operator writes the new value, which state
 * keeps. */
static uint32_t write_back(packing *k) {
  for (uint32_t n = 0; n < k->inputs.count; n++) {
    const ec_fb_table named = ec_fb_vec_table(k->inputs, n);
    const ec_fb_table arg = ec_fb_child(named, ECN_NamedArgument_arg);
    const ec_fb_table tensor = arg ? ec_fb_union(arg, ECN_Argument_value, ECN_TENSOR) : NULL;
    int64_t old;
    if (!ec_fb_bool(named, ECN_NamedArgument_mutated) || !tensor || k->out_count != 1) continue;
    const ect_text name = ecn_text(tensor, ECN_TensorArg_name);
    EC_BACKEND_TRY(ecn_find_value(k->g, name, &old));
    const ect_tensor *t = ect_tensor_at(&k->g->program, old);
    if (t && t->role == ECT_STATE) ect_add_copy(&k->g->program, k->outs[0], old, NULL);
    else EC_BACKEND_TRY(ecn_set_value(k->g, name, k->outs[0]));
  }
  return EC_BACKEND_OK;
}

/* ---- calls ----------------------------------------------------------------------------------- */

/* An operator on numbers, with one result. */
static uint32_t call_number(packing *k, const char *op, const ec_backend_node *node) {
  ect_program *p = &k->g->program;
  if (k->inputs.count != 2 || k->outputs.count != 1)
    return REFUSE(k, EC_BACKEND_INVALID_PROGRAM, "expected two arguments and one result");
  for (uint32_t i = 0; i < 2; i++)
    EC_BACKEND_TRY(read_argument(k, ec_fb_vec_table(k->inputs, i), NULL, &k->args[i]));
  const ec_fb_table output = ec_fb_vec_table(k->outputs, 0);
  const uint8_t kind = ec_fb_u8(output, ECN_Output_kind);
  if (kind != ECN_INT_OUT && kind != ECN_BOOL_OUT)
    return REFUSE(k, EC_BACKEND_INVALID_PROGRAM, "the result is not an int or a bool");
  k->args[2] = kind == ECN_INT_OUT ? ect_add_int(p, 0) : ect_add_bool(p, false);
  ect_add_call(p, op, k->args, 3, node);
  return ecn_set_value(k->g, ecn_text(output, ECN_Output_name), k->args[2]);
}

/* An operator of special.c, with one result. Its arguments are those of torch's schema, in
 * order. */
static uint32_t call_special(packing *k, ecn_special *function, const ec_backend_node *node) {
  if (k->outputs.count != 1 || k->inputs.count > ECT_MAX_ARGS)
    return REFUSE(k, EC_BACKEND_INVALID_PROGRAM, "expected one result");
  for (uint32_t i = 0; i < k->inputs.count; i++)
    EC_BACKEND_TRY(read_argument(k, ec_fb_vec_table(k->inputs, i), NULL, &k->args[i]));
  EC_BACKEND_TRY(add_results(k));
  if (k->out_count != 1 || !ect_tensor_at(&k->g->program, k->outs[0]))
    return REFUSE(k, EC_BACKEND_INVALID_PROGRAM, "the result is not a tensor");
  const ecn_step step = {k->g, k->what, k->args, k->inputs.count, k->outs[0], node};
  return function(&step);
}

uint32_t ecn_translate_node(ecn_graph *g, uint32_t index) {
  const ec_fb_table node = ec_fb_vec_table(g->payload.nodes, index);
  const ect_text name = ecn_text(node, ECN_Node_name), target = ecn_text(node, ECN_Node_target);
  const ec_backend_node shown = {index, g->depth ? NULL : ecn_operator_name(node), 0};
  packing k = {.g = g, .index = index, .inputs = ec_fb_vector(node, ECN_Node_inputs),
               .outputs = ec_fb_vector(node, ECN_Node_outputs)};
  if (ec_fb_u8(node, ECN_Node_op_kind) != ECN_CALL) return EC_BACKEND_OK;
  snprintf(k.what, sizeof k.what, "node %u '%.60s' (%.80s)", (unsigned)index,
           (const char *)name.data, (const char *)target.data);
  ect_set_place(&g->program, "%s", k.what);
  if (ecn_text_is(target, "torch.ops.higher_order.cond"))
    return ecn_call_cond(g, node, k.what, &shown, ecn_translate_node);
  const ect_row *row = find_row(ecn_operator_name(node));
  if (row && row->kind == ECT_ROW_NUMBER) return call_number(&k, row->op, &shown);
  EC_BACKEND_TRY(find_name(&k, (const char *)target.data));
  row = find_row(k.name);
  if (row && row->kind == ECT_ROW_SPECIAL)
    return call_special(&k, (ecn_special *)row->special, &shown);
  EC_BACKEND_TRY(find_operator(&k, row));
  EC_BACKEND_TRY(read_arguments(&k));
  EC_BACKEND_TRY(add_results(&k));
  EC_BACKEND_TRY(ect_pack_call(g->c.call, &g->program, k.op, k.args, k.arg_count, k.outs,
                               k.out_count, &shown, k.what));
  return k.in_place ? write_back(&k) : EC_BACKEND_OK;
}
