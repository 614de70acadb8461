/* A method as a graph. Names are resolved in the order of the nodes: an in-place
 * operator's result takes the name of its argument. A buffer that the graph mutates is state. */
#include "method.h"

#include <stdio.h>
#include <string.h>

#include "../fb_text.h"
#include "call.h"
#include "fields.h"

/* Names of a graph or branch. */
typedef struct scope {
  ec_fb_vec tensors;
  ect_names metas, values; /* numbers of `tensors`, of operands */
} scope;

typedef struct reader {
  ect_graph *g;
  scope *scope;
  ect_names buffers;        /* operands by fully qualified name */
  const ect_names *mutated; /* keys of buffers */
  const ecn_data *data;     /* NULL: named data of the program */
  uint32_t block;
} reader;

static uint32_t set_name(reader *r, ect_names *names, ect_text name, uint32_t number) {
  return ect_names_set(names, name, number)
             ? (uint32_t)EC_BACKEND_OK
             : EC_BACKEND_FAIL(&r->g->c, EC_BACKEND_ALLOCATION_FAILED, "no memory for names");
}

static uint32_t find_value(reader *r, ect_text name, uint32_t *out) {
  *out = ect_names_find(&r->scope->values, name);
  return *out != UINT32_MAX ? (uint32_t)EC_BACKEND_OK
                            : ect_refuse(r->g, EC_BACKEND_INVALID_PROGRAM,
                                         "no value '%.*s' before its use", ECT_CLIP(name, 80));
}

/* ---- tensors --------------------------------------------------------------------------------- */

/* Returns the c10::ScalarType of a payload's ScalarType. */
static int32_t scalar_type(uint8_t dtype) {
  enum { UINT16 = 16, UINT64 = 18 };
  return dtype >= UINT16 && dtype <= UINT64 ? EC_DTYPE_UINT16 + (dtype - UINT16) : dtype;
}

/* Refuses a tensor by the name of its quantisation: nothing in ExecuTorch 1.5.1 writes one. */
static void refuse_scheme(reader *r, ect_operand *o, ec_fb_table spec) {
  const ec_fb_table packed = ec_fb_union(spec, ECN_QuantSpec_scheme, ECN_PACKED_QUANT);
  const ec_fb_table group = ec_fb_union(spec, ECN_QuantSpec_scheme, ECN_AFFINE_GROUP);
  const ect_text codec = ect_fb_text(packed, ECN_PackedQuant_codec);
  ect_set_fault(r->g, o, EC_BACKEND_NOT_SUPPORTED,
                "tensor '%.*s' has packed quantised weights (%s%.*s), which no exporter of "
                "ExecuTorch 1.5 writes", ECT_CLIP(o->name, 80),
                group    ? "AffineGroup"
                : packed ? "PackedQuant, codec "
                         : "an unknown scheme", ECT_CLIP(codec, 80));
}

/* Returns a tensor of a TensorMeta. Sizes are upper bounds. */
static ect_operand read_meta(reader *r, ect_text name, ec_fb_table meta) {
  ect_operand o = ect_operand_new(ECT_TENSOR);
  o.name = name;
  o.source = meta;
  if (!meta) {
    ect_set_fault(r->g, &o, EC_BACKEND_INVALID_PROGRAM, "tensor '%.*s' has no dtype and sizes",
                  ECT_CLIP(name, 80));
    return o;
  }
  const ec_fb_vec sizes = ec_fb_vector(meta, ECN_TensorMeta_sizes);
  o.scalar_type = scalar_type(ec_fb_u8(meta, ECN_TensorMeta_dtype));
  o.rank = sizes.count < ECT_MAX_RANK ? sizes.count : ECT_MAX_RANK;
  if (!ec_backend_dtype_size(o.scalar_type) || sizes.count > ECT_MAX_RANK)
    ect_set_fault(r->g, &o, EC_BACKEND_NOT_SUPPORTED,
                  "tensor '%.*s' has ScalarType %d and %u dimensions, expected a known type and "
                  "at most %d",
                  ECT_CLIP(name, 80), (int)o.scalar_type, (unsigned)sizes.count, ECT_MAX_RANK);
  if (ec_fb_field_at(meta, ECN_TensorMeta_quant))
    refuse_scheme(r, &o, ec_fb_child(meta, ECN_TensorMeta_quant));
  for (uint32_t d = 0; d < o.rank; d++) {
    const ec_fb_table dim = ec_fb_vec_table(sizes, d);
    o.sizes[d] = (int64_t)ec_fb_get(dim, ECN_Dim_max, 8, UINT64_MAX);
    o.varying |= (uint32_t)(ec_fb_i64(dim, ECN_Dim_min) != o.sizes[d]) << d;
    o.is_dynamic = o.varying;
    if (o.sizes[d] >= 0) continue;
    o.sizes[d] = 0;
    ect_set_fault(r->g, &o, EC_BACKEND_NOT_SUPPORTED,
                  "tensor '%.*s' has no upper bound in dimension %u", ECT_CLIP(name, 80),
                  (unsigned)d);
  }
  return o;
}

void ecn_note_bounds(const ect_graph *g, const ect_operand *o, ect_note *note) {
  const ec_fb_vec sizes = o->source ? ec_fb_vector(o->source, ECN_TensorMeta_sizes)
                                    : (ec_fb_vec){0};
  (void)g;
  for (uint32_t d = 0; d < o->rank && d < sizes.count; d++) {
    const int64_t least = ec_fb_i64(ec_fb_vec_table(sizes, d), ECN_Dim_min);
    if (least != o->sizes[d])
      ect_note_add(note, "at least %lld in dimension %u", (long long)least, (unsigned)d);
  }
}

/* Finds the dtype and sizes of a tensor of the scope. */
static uint32_t find_meta(reader *r, ect_text name, ect_operand *out) {
  const uint32_t row = ect_names_find(&r->scope->metas, name);
  if (row == UINT32_MAX)
    return ect_refuse(r->g, EC_BACKEND_INVALID_PROGRAM, "no sizes of tensor '%.*s'",
                      ECT_CLIP(name, 80));
  const ec_fb_table tensor = ec_fb_vec_table(r->scope->tensors, row);
  *out = read_meta(r, name, ec_fb_child(tensor, ECN_TensorValue_meta));
  return EC_BACKEND_OK;
}

/* Adds an operand, which later operands of its name replace. */
static uint32_t define(reader *r, const ect_operand *o, uint32_t *out) {
  EC_BACKEND_TRY(ect_add_operand(r->g, o, out));
  return set_name(r, &r->scope->values, o->name, *out);
}

static uint32_t define_tensor(reader *r, ect_text name, uint32_t *out) {
  ect_operand o;
  EC_BACKEND_TRY(find_meta(r, name, &o));
  return define(r, &o, out);
}

/* Adds a constant or state. `key` names its elements, or initial ones. */
static uint32_t define_known(reader *r, ect_operand *o, ect_text key, const ect_group *group) {
  uint32_t number;
  EC_BACKEND_TRY(ect_add_group(r->g, group, &o->group));
  EC_BACKEND_TRY(define(r, o, &number));
  return set_name(r, &r->buffers, key, number);
}

static uint32_t read_constant(reader *r, ec_fb_table ref) {
  const ect_text key = ect_fb_text(ref, ECN_NamedTensorRef_data_key);
  ect_graph *g = r->g;
  ect_operand o = read_meta(r, ect_fb_text(ref, ECN_NamedTensorRef_name),
                            ec_fb_child(ref, ECN_NamedTensorRef_meta));
  ect_group group = {.key = (const char *)key.data};
  o.is_state = ect_names_find(r->mutated, key) != UINT32_MAX;
  if (r->data) EC_BACKEND_TRY(r->data->find(r->data, g, key, &o, &group));
  return define_known(r, &o, key, &group);
}

/* A buffer without data begins as zeros. */
static uint32_t read_buffer(reader *r, ec_fb_table spec) {
  const ect_text name = ect_fb_text(spec, ECN_MutableBufferSpec_fqn);
  ect_operand o;
  if (r->data)
    return EC_BACKEND_FAIL(&r->g->c, EC_BACKEND_NOT_SUPPORTED,
                           "buffer '%.*s' has no initial value in the package", ECT_CLIP(name, 80));
  EC_BACKEND_TRY(find_meta(r, ect_fb_text(spec, ECN_MutableBufferSpec_name), &o));
  o.is_state = true;
  return define_known(r, &o, name, &(ect_group){0});
}

/* ---- arguments ------------------------------------------------------------------------------- */

/* Finds an int or other number, or the value that its `ref` names. */
static uint32_t read_number(reader *r, ect_operand o, ect_text ref, uint32_t *out) {
  return ref.size ? find_value(r, ref, out) : ect_add_operand(r->g, &o, out);
}

/* Adds the items of a list of ints, some of which may be names of values. */
static uint32_t read_ints(reader *r, ec_fb_table table, ect_operand *list) {
  const ec_fb_vec values = ec_fb_vector(table, ECN_IntListArg_values);
  const ec_fb_vec refs = ec_fb_vector(table, ECN_IntListArg_refs);
  *list = ect_list_new(ECT_INT_LIST, values.items, values.count, 8);
  if (!refs.count) return EC_BACKEND_OK;
  *list = ect_operand_new(ECT_INT_LIST);
  list->first = (uint32_t)r->g->item_count;
  for (list->count = 0; list->count < values.count; list->count++) {
    const ect_text ref =
        list->count < refs.count ? ect_fb_text_at(refs, list->count) : (ect_text){0};
    uint32_t item;
    EC_BACKEND_TRY(read_number(
        r, ect_number_new(ECT_INT, (uint64_t)ec_fb_vec_i64(values, list->count)), ref, &item));
    EC_BACKEND_TRY(ect_add_item(r->g, item));
  }
  return EC_BACKEND_OK;
}

/* Adds the items of a list of tensors; ECT_ABSENT for absent ones. */
static uint32_t read_tensors(reader *r, uint8_t type, ec_fb_table table, ect_operand *list) {
  const bool is_optional = type == ECN_OPTIONAL_TENSOR_LIST;
  const ec_fb_vec names = ec_fb_vector(table, 0);
  const ec_fb_vec present = is_optional ? ec_fb_vector(table, 1) : (ec_fb_vec){0};
  *list = ect_operand_new(is_optional ? ECT_OPTIONAL_TENSOR_LIST : ECT_TENSOR_LIST);
  list->first = (uint32_t)r->g->item_count;
  for (list->count = 0; list->count < names.count; list->count++) {
    uint32_t item = ECT_ABSENT;
    if (list->count >= present.count || present.items[list->count])
      EC_BACKEND_TRY(find_value(r, ect_fb_text_at(names, list->count), &item));
    EC_BACKEND_TRY(ect_add_item(r->g, item));
  }
  return EC_BACKEND_OK;
}

static uint32_t read_branch(reader *r, ec_fb_table argument, uint32_t *out);

static uint32_t read_argument(reader *r, ec_fb_table named, uint32_t *out) {
  const ec_fb_table arg = ec_fb_child(named, ECN_NamedArgument_arg);
  const uint8_t type = arg ? ec_fb_u8(arg, ECN_Argument_value_type) : 0;
  const ec_fb_table table = type && type < ECN_TYPES ? ec_fb_child(arg, ECN_Argument_value) : NULL;
  if (!table)
    return ect_refuse(r->g, EC_BACKEND_INVALID_PROGRAM, "an argument has no value");
  const ect_text ref =
      type == ECN_INT || type == ECN_FLOAT || type == ECN_BOOL ? ect_fb_text(table, 1)
                                                               : (ect_text){0};
  const ec_fb_vec items = type == ECN_FLOAT_LIST || type == ECN_BOOL_LIST ? ec_fb_vector(table, 0)
                                                                          : (ec_fb_vec){0};
  ect_operand o = ect_operand_new(ECT_NONE);
  switch (type) {
  case ECN_TENSOR: return find_value(r, ect_fb_text(table, ECN_TensorArg_name), out);
  case ECN_GRAPH: return read_branch(r, table, out);
  case ECN_INT: o = ect_number_new(ECT_INT, ec_fb_u64(table, ECN_IntArg_value)); break;
  case ECN_FLOAT: o = ect_number_new(ECT_DOUBLE, ec_fb_u64(table, ECN_FloatArg_value)); break;
  case ECN_BOOL: o = ect_number_new(ECT_BOOL, ec_fb_bool(table, ECN_BoolArg_value)); break;
  case ECN_SCALAR_TYPE:
    o = ect_number_new(ECT_INT,
                       (uint64_t)scalar_type(ec_fb_u8(table, ECN_ScalarTypeArg_value)));
    break;
  case ECN_STRING: o = ect_text_new(ect_fb_text(table, ECN_StringArg_value)); break;
  case ECN_INT_LIST: EC_BACKEND_TRY(read_ints(r, table, &o)); break;
  case ECN_FLOAT_LIST: o = ect_list_new(ECT_DOUBLE_LIST, items.items, items.count, 8); break;
  case ECN_BOOL_LIST: o = ect_list_new(ECT_BOOL_LIST, items.items, items.count, 1); break;
  case ECN_TENSOR_LIST:
  case ECN_OPTIONAL_TENSOR_LIST: EC_BACKEND_TRY(read_tensors(r, type, table, &o)); break;
  default: break;
  }
  return read_number(r, o, ref, out);
}

/* ---- results --------------------------------------------------------------------------------- */

static uint32_t define_list(reader *r, ec_fb_vec names, uint32_t *out) {
  ect_operand list = ect_operand_new(ECT_TENSOR_LIST);
  list.first = (uint32_t)r->g->item_count;
  for (list.count = 0; list.count < names.count; list.count++) {
    uint32_t item;
    EC_BACKEND_TRY(define_tensor(r, ect_fb_text_at(names, list.count), &item));
    EC_BACKEND_TRY(ect_add_item(r->g, item));
  }
  return ect_add_operand(r->g, &list, out);
}

static uint32_t define_result(reader *r, ec_fb_table output, uint32_t *out) {
  const uint8_t kind = ec_fb_u8(output, ECN_Output_kind);
  if (kind == ECN_TENSOR_OUT) return define_tensor(r, ect_fb_text(output, ECN_Output_name), out);
  if (kind == ECN_TENSOR_LIST_OUT)
    return define_list(r, ec_fb_vector(output, ECN_Output_names), out);
  ect_operand o = ect_number_new(kind == ECN_INT_OUT    ? ECT_INT
                                 : kind == ECN_BOOL_OUT ? ECT_BOOL
                                                        : ECT_DOUBLE,
                                 0);
  o.name = ect_fb_text(output, ECN_Output_name);
  return define(r, &o, out);
}

/* ---- nodes ----------------------------------------------------------------------------------- */

/* Adds a node without an operator, which copies a value to state. */
static uint32_t add_copy(reader *r, uint32_t from, uint32_t to) {
  const ect_node n = {.first = (uint32_t)r->g->link_count, .input_count = 1, .output_count = 1};
  EC_BACKEND_TRY(ect_add_link(r->g, (ect_text){0}, from));
  EC_BACKEND_TRY(ect_add_link(r->g, (ect_text){0}, to));
  return ect_add_node(r->g, r->block, &n);
}

/* Gives the names of arguments that an in-place operator writes its result, which state keeps. */
static uint32_t write_back(reader *r, ec_fb_vec inputs, uint32_t result) {
  for (uint32_t i = 0; i < inputs.count; i++) {
    const ec_fb_table named = ec_fb_vec_table(inputs, i);
    const ec_fb_table arg = ec_fb_child(named, ECN_NamedArgument_arg);
    const ec_fb_table tensor = arg ? ec_fb_union(arg, ECN_Argument_value, ECN_TENSOR) : NULL;
    uint32_t old;
    if (!ec_fb_bool(named, ECN_NamedArgument_mutated) || !tensor) continue;
    const ect_text name = ect_fb_text(tensor, ECN_TensorArg_name);
    EC_BACKEND_TRY(find_value(r, name, &old));
    if (r->g->operands[old].is_state) EC_BACKEND_TRY(add_copy(r, result, old));
    else EC_BACKEND_TRY(set_name(r, &r->scope->values, name, result));
  }
  return EC_BACKEND_OK;
}

/* Returns the operator as traces show it, without "torch.ops.". */
static const char *operator_name(ect_text target) {
  static const char start[] = "torch.ops.";
  const char *name = (const char *)target.data;
  return strncmp(name, start, sizeof start - 1) == 0 ? name + sizeof start - 1 : name;
}

/* Links are added behind those of branches, which arguments may be. */
static uint32_t read_links(reader *r, ec_fb_vec inputs, ec_fb_vec outputs, ect_node *n) {
  ect_graph *g = r->g;
  const uint32_t all = inputs.count + outputs.count;
  uint32_t *operands = g->c.host->alloc((all + 1u) * sizeof *operands);
  uint32_t status = operands ? (uint32_t)EC_BACKEND_OK
                             : ect_refuse(g, EC_BACKEND_ALLOCATION_FAILED, "no memory for links");
  for (uint32_t i = 0; status == EC_BACKEND_OK && i < all; i++)
    status = i < inputs.count
                 ? read_argument(r, ec_fb_vec_table(inputs, i), &operands[i])
                 : define_result(r, ec_fb_vec_table(outputs, i - inputs.count), &operands[i]);
  n->first = (uint32_t)g->link_count;
  for (uint32_t i = 0; status == EC_BACKEND_OK && i < all; i++)
    status = ect_add_link(g,
                          i < inputs.count
                              ? ect_fb_text(ec_fb_vec_table(inputs, i), ECN_NamedArgument_name)
                              : (ect_text){0},
                          operands[i]);
  g->c.host->free(operands);
  n->input_count = inputs.count;
  n->output_count = outputs.count;
  return status;
}

static uint32_t read_node(reader *r, uint32_t index, ec_fb_table node) {
  const ec_fb_vec inputs = ec_fb_vector(node, ECN_Node_inputs);
  const ec_fb_vec outputs = ec_fb_vector(node, ECN_Node_outputs);
  ect_node n = {.op = ect_fb_text(node, ECN_Node_target), .name = ect_fb_text(node, ECN_Node_name),
                .number = index, .is_named = true};
  if (ec_fb_u8(node, ECN_Node_op_kind) != ECN_CALL) return EC_BACKEND_OK;
  n.shown = operator_name(n.op);
  ecn_name_node(r->g, &n, r->g->what, sizeof r->g->what);
  EC_BACKEND_TRY(read_links(r, inputs, outputs, &n));
  EC_BACKEND_TRY(ect_add_node(r->g, r->block, &n));
  if (!ecn_is_in_place(n.op) || outputs.count != 1) return EC_BACKEND_OK;
  return write_back(r, inputs, ect_outputs(r->g, &n)[0].operand);
}

static uint32_t read_nodes(reader *r, ec_fb_table graph) {
  const ec_fb_vec nodes = ec_fb_vector(graph, ECN_Graph_nodes);
  for (uint32_t i = 0; i < nodes.count; i++)
    EC_BACKEND_TRY(read_node(r, i, ec_fb_vec_table(nodes, i)));
  return EC_BACKEND_OK;
}

/* ---- branches -------------------------------------------------------------------------------- */

static uint32_t open_scope(reader *r, ec_fb_table graph, scope *out) {
  *out = (scope){.tensors = ec_fb_vector(graph, ECN_Graph_tensor_values),
                 .metas.host = r->g->c.host, .values.host = r->g->c.host};
  r->scope = out;
  for (uint32_t i = 0; i < out->tensors.count; i++) {
    const ec_fb_table row = ec_fb_vec_table(out->tensors, i);
    EC_BACKEND_TRY(set_name(r, &out->metas, ect_fb_text(row, ECN_TensorValue_name), i));
  }
  return EC_BACKEND_OK;
}

static void close_scope(scope *s) {
  ect_names_free(&s->metas);
  ect_names_free(&s->values);
}

/* Adds links to values of the scope. */
static uint32_t link_names(reader *r, ec_fb_vec names) {
  for (uint32_t i = 0; i < names.count; i++) {
    uint32_t operand;
    EC_BACKEND_TRY(find_value(r, ect_fb_text_at(names, i), &operand));
    EC_BACKEND_TRY(ect_add_link(r->g, (ect_text){0}, operand));
  }
  return EC_BACKEND_OK;
}

/* Reads a branch, whose inputs have the dtypes and sizes of the node's operands. */
static uint32_t read_inside(reader *r, ec_fb_table graph) {
  const ec_fb_vec inputs = ec_fb_vector(graph, ECN_Graph_inputs);
  const ec_fb_vec outputs = ec_fb_vector(graph, ECN_Graph_outputs);
  ect_graph *g = r->g;
  const ect_block b = {.first_input = (uint32_t)g->link_count, .input_count = inputs.count,
                       .output_count = outputs.count};
  EC_BACKEND_TRY(ect_add_block(g, &b, &r->block));
  for (uint32_t i = 0; i < inputs.count; i++) {
    ect_operand o = ect_operand_new(ECT_NONE);
    uint32_t number;
    o.name = ect_fb_text_at(inputs, i);
    EC_BACKEND_TRY(define(r, &o, &number));
    EC_BACKEND_TRY(ect_add_link(g, (ect_text){0}, number));
  }
  EC_BACKEND_TRY(read_nodes(r, graph));
  g->blocks[r->block].first_output = (uint32_t)g->link_count;
  return link_names(r, outputs);
}

static uint32_t read_branch(reader *r, ec_fb_table argument, uint32_t *out) {
  const ec_fb_table graph = ec_fb_child(argument, ECN_GraphArg_graph);
  const reader outer = *r;
  ect_operand o = ect_operand_new(graph ? ECT_BLOCK : ECT_NONE);
  scope inner;
  if (!graph) return ect_add_operand(r->g, &o, out);
  uint32_t status = open_scope(r, graph, &inner);
  if (status == EC_BACKEND_OK) status = read_inside(r, graph);
  close_scope(&inner);
  o.first = r->block;
  r->scope = outer.scope;
  r->block = outer.block;
  return status == EC_BACKEND_OK ? ect_add_operand(r->g, &o, out) : status;
}

/* ---- the method ------------------------------------------------------------------------------ */

static uint32_t read_inputs(reader *r, ec_fb_vec names) {
  snprintf(r->g->what, sizeof r->g->what, "inputs");
  for (uint32_t i = 0; i < names.count; i++) {
    const ect_text name = ect_fb_text_at(names, i);
    uint32_t operand;
    if (ect_names_find(&r->scope->values, name) != UINT32_MAX)
      return EC_BACKEND_FAIL(&r->g->c, EC_BACKEND_INVALID_PROGRAM,
                             "input %u, '%.*s', has two values", (unsigned)i, ECT_CLIP(name, 80));
    EC_BACKEND_TRY(define_tensor(r, name, &operand));
    EC_BACKEND_TRY(ect_add_link(r->g, (ect_text){0}, operand));
  }
  return EC_BACKEND_OK;
}

/* Writes the new value of a buffer to its state. */
static uint32_t keep_state(reader *r, ect_text target, uint32_t operand) {
  const uint32_t buffer = ect_names_find(&r->buffers, target);
  if (buffer == UINT32_MAX || !r->g->operands[buffer].is_state)
    return EC_BACKEND_FAIL(&r->g->c, EC_BACKEND_INVALID_PROGRAM,
                           "no buffer '%.*s', which an output mutates", ECT_CLIP(target, 80));
  return buffer == operand ? (uint32_t)EC_BACKEND_OK : add_copy(r, operand, buffer);
}

/* Adds a copy of state, which keeps its value when the state changes. */
static uint32_t keep_value(reader *r, uint32_t *operand) {
  ect_operand copy = r->g->operands[*operand];
  const uint32_t state = *operand;
  copy.is_state = false;
  copy.is_defined = false;
  copy.group = ECT_ABSENT;
  EC_BACKEND_TRY(ect_add_operand(r->g, &copy, operand));
  return add_copy(r, state, *operand);
}

/* Finds the values of outputs. Those that are state are its values before the graph's end, where
 * buffers receive new ones. */
static uint32_t find_outputs(reader *r, ec_fb_vec names, ec_fb_vec specs, uint32_t *operands) {
  for (uint32_t i = 0; i < names.count; i++) {
    const ec_fb_table spec = i < specs.count ? ec_fb_vec_table(specs, i) : NULL;
    const uint32_t buffer =
        spec ? ect_names_find(&r->buffers, ect_fb_text(spec, ECN_OutputSpec_target)) : UINT32_MAX;
    EC_BACKEND_TRY(find_value(r, ect_fb_text_at(names, i), &operands[i]));
    if (r->g->operands[operands[i]].is_state && operands[i] != buffer)
      EC_BACKEND_TRY(keep_value(r, &operands[i]));
  }
  return EC_BACKEND_OK;
}

/* Adds the outputs of the user; others are new values of buffers, written before the links. */
static uint32_t read_outputs(reader *r, ec_fb_vec specs, const uint32_t *operands, uint32_t count,
                             bool copies) {
  for (uint32_t i = 0; i < count; i++) {
    const uint32_t operand = operands[i];
    const ec_fb_table spec = i < specs.count ? ec_fb_vec_table(specs, i) : NULL;
    const uint8_t kind = spec ? ec_fb_u8(spec, ECN_OutputSpec_kind) : ECN_USER_OUTPUT;
    if (kind != ECN_USER_OUTPUT && kind != ECN_BUFFER_MUTATION)
      return EC_BACKEND_FAIL(&r->g->c, EC_BACKEND_NOT_SUPPORTED, "output %u mutates an input",
                             (unsigned)i);
    if (r->g->operands[operand].kind != ECT_TENSOR)
      return EC_BACKEND_FAIL(&r->g->c, EC_BACKEND_NOT_SUPPORTED, "output %u is not a tensor",
                             (unsigned)i);
    if (copies && kind == ECN_BUFFER_MUTATION)
      EC_BACKEND_TRY(keep_state(r, ect_fb_text(spec, ECN_OutputSpec_target), operand));
    if (copies || kind != ECN_USER_OUTPUT) continue;
    EC_BACKEND_TRY(ect_add_link(r->g, (ect_text){0}, operand));
    r->g->blocks[0].output_count++;
  }
  return EC_BACKEND_OK;
}

static uint32_t link_outputs(reader *r, ec_fb_vec names, ec_fb_vec specs) {
  ect_graph *g = r->g;
  uint32_t *operands = g->c.host->alloc((names.count + 1u) * sizeof *operands);
  snprintf(g->what, sizeof g->what, "outputs");
  uint32_t status = operands ? find_outputs(r, names, specs, operands)
                             : ect_refuse(g, EC_BACKEND_ALLOCATION_FAILED, "no memory for links");
  if (status == EC_BACKEND_OK) status = read_outputs(r, specs, operands, names.count, true);
  g->blocks[0].first_output = (uint32_t)g->link_count;
  if (status == EC_BACKEND_OK) status = read_outputs(r, specs, operands, names.count, false);
  g->c.host->free(operands);
  return status;
}

static uint32_t read_method(reader *r, ec_fb_table method, ec_fb_table graph) {
  const ec_fb_vec constants = ec_fb_vector(method, ECN_Method_constants);
  const ec_fb_vec buffers = ec_fb_vector(method, ECN_Method_mutable_buffers);
  const ec_fb_vec specs = ec_fb_vector(method, ECN_Method_output_specs);
  const ec_fb_vec inputs = ec_fb_vector(graph, ECN_Graph_inputs);
  const ec_fb_vec outputs = ec_fb_vector(graph, ECN_Graph_outputs);
  ect_graph *g = r->g;
  for (uint32_t i = 0; i < constants.count; i++)
    EC_BACKEND_TRY(read_constant(r, ec_fb_vec_table(constants, i)));
  for (uint32_t i = 0; i < buffers.count; i++)
    EC_BACKEND_TRY(read_buffer(r, ec_fb_vec_table(buffers, i)));
  EC_BACKEND_TRY(ect_add_block(g, &(ect_block){.input_count = inputs.count}, &r->block));
  EC_BACKEND_TRY(read_inputs(r, inputs));
  EC_BACKEND_TRY(read_nodes(r, graph));
  return link_outputs(r, outputs, specs);
}

uint32_t ecn_read_method(ect_graph *g, ec_fb_table method, const ect_names *mutated,
                         const ecn_data *data) {
  const ec_fb_table top = ec_fb_child(method, ECN_Method_graph);
  reader r = {.g = g, .mutated = mutated, .data = data, .buffers.host = g->c.host};
  scope s;
  if (!top) return EC_BACKEND_FAIL(&g->c, EC_BACKEND_INVALID_PROGRAM, "payload: no graph");
  uint32_t status = open_scope(&r, top, &s);
  if (status == EC_BACKEND_OK) status = read_method(&r, method, top);
  close_scope(&s);
  ect_names_free(&r.buffers);
  return status;
}
