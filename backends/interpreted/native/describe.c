/* The graph as text: tensors, constants and nodes. Nothing is translated. */
#include "describe.h"

#include "../note.h"
#include "fields.h"
#include "graph.h"

enum { MOST_SHOWN = 64 };

/* ---- values ---------------------------------------------------------------------------------- */

static const char *dtype_name(int32_t dtype) {
  static const char *const names[] = {
      [0] = "uint8", [1] = "int8", [2] = "int16", [3] = "int32", [4] = "int64", [5] = "fp16",
      [6] = "fp32", [7] = "fp64", [11] = "bool", [15] = "bf16", [27] = "uint16", [28] = "uint32",
      [29] = "uint64"};
  const bool known = dtype >= 0 && (size_t)dtype < sizeof names / sizeof names[0];
  return known && names[dtype] ? names[dtype] : "unknown";
}

/* Position of a name among the delegate's arguments; UINT32_MAX: none. */
static uint32_t argument_of(const ecn_payload *p, ect_text name) {
  for (uint32_t i = 0; i < p->inputs.count && i < MOST_SHOWN; i++)
    if (ecn_text_is(name, ec_fb_vec_string(p->inputs, i))) return i;
  for (uint32_t i = 0; i < p->outputs.count && i < MOST_SHOWN; i++)
    if (ecn_text_is(name, ec_fb_vec_string(p->outputs, i))) return p->inputs.count + i;
  return UINT32_MAX;
}

static void show_tensor(const ecn_graph *g, uint32_t id, ect_text name, ec_fb_table meta,
                        const char *key, const ec_backend_visitor *visitor) {
  ect_note note = {{0}, 0};
  int64_t sizes[ECT_MAX_RANK];
  if (!meta) return;
  const ec_fb_vec dims = ec_fb_vector(meta, ECN_TensorMeta_sizes);
  const int32_t dtype = ecn_scalar_type(ec_fb_u8(meta, ECN_TensorMeta_dtype));
  const uint32_t rank = dims.count < ECT_MAX_RANK ? dims.count : ECT_MAX_RANK;
  size_t bytes = ec_backend_dtype_size(dtype);
  ect_note_add(&note, "%.100s", (const char *)name.data);
  if (key) ect_note_add(&note, "named data %.80s", key);
  for (uint32_t d = 0; d < rank; d++) {
    const ec_fb_table dim = ec_fb_vec_table(dims, d);
    sizes[d] = (int64_t)ec_fb_get(dim, ECN_Dim_max, 8, UINT64_MAX);
    if (sizes[d] < 0) sizes[d] = 0;
    if (ec_fb_i64(dim, ECN_Dim_min) != sizes[d])
      ect_note_add(&note, "at least %lld in dimension %u",
                   (long long)ec_fb_i64(dim, ECN_Dim_min), (unsigned)d);
    if (__builtin_mul_overflow(bytes, (size_t)sizes[d], &bytes)) bytes = 0;
  }
  const ec_backend_inner_value shown = {
      .id = id, .argument = argument_of(&g->payload, name), .constant = key != NULL,
      .dtype = dtype_name(dtype), .note = note.at, .rank = rank, .nbytes = bytes, .sizes = sizes};
  visitor->value(visitor->user, &shown);
}

/* Shows tensors, numbered in their order, and constants after them. */
static uint32_t show_values(ecn_graph *g, const ec_backend_visitor *visitor) {
  const ecn_payload *p = &g->payload;
  for (uint32_t i = 0; i < p->tensors.count; i++) {
    const ec_fb_table row = ec_fb_vec_table(p->tensors, i);
    show_tensor(g, i, ecn_text(row, ECN_TensorValue_name),
                ec_fb_child(row, ECN_TensorValue_meta), NULL, visitor);
  }
  for (uint32_t i = 0; i < p->constants.count; i++) {
    const ec_fb_table ref = ec_fb_vec_table(p->constants, i);
    const ect_text name = ecn_text(ref, ECN_NamedTensorRef_name);
    const uint32_t id = p->tensors.count + i;
    if (!ect_names_set(&g->metas, name, id))
      return EC_BACKEND_FAIL(&g->c, EC_BACKEND_ALLOCATION_FAILED, "no memory for %u constants",
                             (unsigned)p->constants.count);
    show_tensor(g, id, name, ec_fb_child(ref, ECN_NamedTensorRef_meta),
                (const char *)ecn_text(ref, ECN_NamedTensorRef_data_key).data, visitor);
  }
  return EC_BACKEND_OK;
}

/* ---- nodes ----------------------------------------------------------------------------------- */

typedef struct operands {
  uint32_t ids[MOST_SHOWN];
  size_t count;
} operands;

static void add_operand(const ecn_graph *g, ect_text name, operands *o) {
  const uint32_t id = ect_names_find(&g->metas, name);
  if (id != UINT32_MAX && o->count < MOST_SHOWN) o->ids[o->count++] = id;
}

static void add_operands(const ecn_graph *g, ec_fb_vec strings, operands *o) {
  for (uint32_t i = 0; i < strings.count && i < MOST_SHOWN; i++)
    add_operand(g, ecn_text_at(strings, i), o);
}

static void add_ints(ect_note *note, const char *name, ec_fb_vec items) {
  int64_t numbers[MOST_SHOWN];
  const uint32_t count = items.count < MOST_SHOWN ? items.count : MOST_SHOWN;
  for (uint32_t i = 0; i < count; i++) numbers[i] = ec_fb_vec_i64(items, i);
  ect_note_list(note, name, numbers, count);
}

/* Adds the tensors of an argument, or its value. */
static void add_argument(const ecn_graph *g, ec_fb_table named, operands *in, ect_note *note) {
  const ec_fb_table arg = ec_fb_child(named, ECN_NamedArgument_arg);
  const uint8_t type = arg ? ec_fb_u8(arg, ECN_Argument_value_type) : 0;
  const ec_fb_table table = type && type < ECN_TYPES ? ec_fb_child(arg, ECN_Argument_value) : NULL;
  const char *name = (const char *)ecn_text(named, ECN_NamedArgument_name).data;
  if (!table) return;
  switch (type) {
  case ECN_TENSOR: add_operand(g, ecn_text(table, ECN_TensorArg_name), in); break;
  case ECN_TENSOR_LIST:
  case ECN_OPTIONAL_TENSOR_LIST: add_operands(g, ec_fb_vector(table, 0), in); break;
  case ECN_INT:
    ect_note_add(note, "%.40s=%lld", name, (long long)ec_fb_i64(table, ECN_IntArg_value));
    break;
  case ECN_FLOAT:
    ect_note_add(note, "%.40s=%g", name, ec_fb_f64(table, ECN_FloatArg_value));
    break;
  case ECN_BOOL:
    ect_note_add(note, "%.40s=%s", name, ec_fb_bool(table, ECN_BoolArg_value) ? "True" : "False");
    break;
  case ECN_INT_LIST: add_ints(note, name, ec_fb_vector(table, ECN_IntListArg_values)); break;
  default: break;
  }
}

static void show_node(const ecn_graph *g, uint32_t index, ec_fb_table node,
                      const ec_backend_visitor *visitor) {
  operands in = {.count = 0}, out = {.count = 0};
  ect_note note = {{0}, 0};
  const ec_fb_vec inputs = ec_fb_vector(node, ECN_Node_inputs);
  const ec_fb_vec outputs = ec_fb_vector(node, ECN_Node_outputs);
  ect_note_add(&note, "%.120s", (const char *)ecn_text(node, ECN_Node_name).data);
  for (uint32_t i = 0; i < inputs.count && i < MOST_SHOWN; i++)
    add_argument(g, ec_fb_vec_table(inputs, i), &in, &note);
  for (uint32_t i = 0; i < outputs.count && i < MOST_SHOWN; i++) {
    const ec_fb_table output = ec_fb_vec_table(outputs, i);
    add_operand(g, ecn_text(output, ECN_Output_name), &out);
    add_operands(g, ec_fb_vector(output, ECN_Output_names), &out);
  }
  const ec_backend_inner_node shown = {
      .debug_handle = index, .name = ecn_operator_name(node),
      .note = note.at, .inputs = in.ids, .outputs = out.ids, .input_count = in.count,
      .output_count = out.count};
  visitor->node(visitor->user, &shown);
}

uint32_t ecn_describe(void *graph, const ec_backend_visitor *visitor) {
  ecn_graph *g = graph;
  const ec_fb_vec nodes = g->payload.nodes;
  EC_BACKEND_TRY(show_values(g, visitor));
  for (uint32_t i = 0; i < nodes.count; i++) {
    const ec_fb_table node = ec_fb_vec_table(nodes, i);
    if (ec_fb_u8(node, ECN_Node_op_kind) == ECN_CALL) show_node(g, i, node, visitor);
  }
  return EC_BACKEND_OK;
}
