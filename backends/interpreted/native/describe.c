/* The graph as text: tensors, constants and nodes. Nothing is translated. */
#include "describe.h"

#include "../show.h"
#include "fields.h"
#include "graph.h"

/* ---- values ---------------------------------------------------------------------------------- */

static void show_tensor(ect_show *s, uint32_t id, ect_text name, ec_fb_table meta,
                        const char *key) {
  int64_t sizes[ECT_MAX_RANK];
  if (!meta) return;
  const ec_fb_vec dims = ec_fb_vector(meta, ECN_TensorMeta_sizes);
  const int32_t dtype = ecn_scalar_type(ec_fb_u8(meta, ECN_TensorMeta_dtype));
  const uint32_t rank = dims.count < ECT_MAX_RANK ? dims.count : ECT_MAX_RANK;
  size_t bytes = ec_backend_dtype_size(dtype);
  ect_note_add(&s->note, "%.100s", (const char *)name.data);
  if (key) ect_note_add(&s->note, "named data %.80s", key);
  for (uint32_t d = 0; d < rank; d++) {
    const ec_fb_table dim = ec_fb_vec_table(dims, d);
    sizes[d] = (int64_t)ec_fb_get(dim, ECN_Dim_max, 8, UINT64_MAX);
    if (sizes[d] < 0) sizes[d] = 0;
    if (ec_fb_i64(dim, ECN_Dim_min) != sizes[d])
      ect_note_add(&s->note, "at least %lld in dimension %u",
                   (long long)ec_fb_i64(dim, ECN_Dim_min), (unsigned)d);
    if (__builtin_mul_overflow(bytes, (size_t)sizes[d], &bytes)) bytes = 0;
  }
  ect_show_tensor(s, &(ec_backend_inner_value){.id = id, .constant = key != NULL,
                                               .dtype = ect_show_dtype(dtype), .rank = rank,
                                               .nbytes = bytes, .sizes = sizes});
}

/* Finds the numbers of constants, which follow the tensors', and positions of arguments. */
static uint32_t find_ids(ecn_graph *g, ect_show *s) {
  const ecn_payload *p = &g->payload;
  for (uint32_t i = 0; i < p->constants.count; i++) {
    const ec_fb_table ref = ec_fb_vec_table(p->constants, i);
    if (!ect_names_set(&g->metas, ecn_text(ref, ECN_NamedTensorRef_name), p->tensors.count + i))
      return EC_BACKEND_FAIL(&g->c, EC_BACKEND_ALLOCATION_FAILED, "no memory for %u constants",
                             (unsigned)p->constants.count);
  }
  for (uint32_t i = 0; i < p->inputs.count; i++)
    ect_show_argument(s, ect_names_find(&g->metas, ecn_text_at(p->inputs, i)), i);
  for (uint32_t i = 0; i < p->outputs.count; i++)
    ect_show_argument(s, ect_names_find(&g->metas, ecn_text_at(p->outputs, i)),
                      p->inputs.count + i);
  return EC_BACKEND_OK;
}

static void show_values(const ecn_graph *g, ect_show *s) {
  const ecn_payload *p = &g->payload;
  for (uint32_t i = 0; i < p->tensors.count; i++) {
    const ec_fb_table row = ec_fb_vec_table(p->tensors, i);
    show_tensor(s, i, ecn_text(row, ECN_TensorValue_name), ec_fb_child(row, ECN_TensorValue_meta),
                NULL);
  }
  for (uint32_t i = 0; i < p->constants.count; i++) {
    const ec_fb_table ref = ec_fb_vec_table(p->constants, i);
    show_tensor(s, p->tensors.count + i, ecn_text(ref, ECN_NamedTensorRef_name),
                ec_fb_child(ref, ECN_NamedTensorRef_meta),
                (const char *)ecn_text(ref, ECN_NamedTensorRef_data_key).data);
  }
}

/* ---- nodes ----------------------------------------------------------------------------------- */

static void add_operand(const ecn_graph *g, ect_text name, ect_operands *o) {
  const uint32_t id = ect_names_find(&g->metas, name);
  if (id != UINT32_MAX) ect_show_operand(o, id);
}

static void add_operands(const ecn_graph *g, ec_fb_vec strings, ect_operands *o) {
  for (uint32_t i = 0; i < strings.count && i < ECT_MAX_SHOWN; i++)
    add_operand(g, ecn_text_at(strings, i), o);
}

static void add_ints(ect_note *note, const char *name, ec_fb_vec items) {
  int64_t numbers[ECT_MAX_SHOWN];
  const uint32_t count = items.count < ECT_MAX_SHOWN ? items.count : ECT_MAX_SHOWN;
  for (uint32_t i = 0; i < count; i++) numbers[i] = ec_fb_vec_i64(items, i);
  ect_note_list(note, name, numbers, count);
}

/* Adds the tensors of an argument, or its value. */
static void add_argument(const ecn_graph *g, ec_fb_table named, ect_show *s) {
  ect_note *note = &s->note;
  const ec_fb_table arg = ec_fb_child(named, ECN_NamedArgument_arg);
  const uint8_t type = arg ? ec_fb_u8(arg, ECN_Argument_value_type) : 0;
  const ec_fb_table table = type && type < ECN_TYPES ? ec_fb_child(arg, ECN_Argument_value) : NULL;
  const char *name = (const char *)ecn_text(named, ECN_NamedArgument_name).data;
  if (!table) return;
  switch (type) {
  case ECN_TENSOR: add_operand(g, ecn_text(table, ECN_TensorArg_name), &s->inputs); break;
  case ECN_TENSOR_LIST:
  case ECN_OPTIONAL_TENSOR_LIST: add_operands(g, ec_fb_vector(table, 0), &s->inputs); break;
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

static void show_node(const ecn_graph *g, uint32_t index, ec_fb_table node, ect_show *s) {
  const ec_fb_vec inputs = ec_fb_vector(node, ECN_Node_inputs);
  const ec_fb_vec outputs = ec_fb_vector(node, ECN_Node_outputs);
  ect_note_add(&s->note, "%.120s", (const char *)ecn_text(node, ECN_Node_name).data);
  for (uint32_t i = 0; i < inputs.count && i < ECT_MAX_SHOWN; i++)
    add_argument(g, ec_fb_vec_table(inputs, i), s);
  for (uint32_t i = 0; i < outputs.count && i < ECT_MAX_SHOWN; i++) {
    const ec_fb_table output = ec_fb_vec_table(outputs, i);
    add_operand(g, ecn_text(output, ECN_Output_name), &s->outputs);
    add_operands(g, ec_fb_vector(output, ECN_Output_names), &s->outputs);
  }
  ect_show_node(s, index, ecn_operator_name(node));
}

uint32_t ecn_describe(void *graph, const ec_backend_visitor *visitor) {
  ecn_graph *g = graph;
  ect_show s;
  const ec_fb_vec nodes = g->payload.nodes;
  uint32_t status =
      ect_show_open(&s, &g->c, visitor, g->payload.tensors.count + g->payload.constants.count);
  if (status == EC_BACKEND_OK) status = find_ids(g, &s);
  if (status == EC_BACKEND_OK) show_values(g, &s);
  for (uint32_t i = 0; status == EC_BACKEND_OK && i < nodes.count; i++) {
    const ec_fb_table node = ec_fb_vec_table(nodes, i);
    if (ec_fb_u8(node, ECN_Node_op_kind) == ECN_CALL) show_node(g, i, node, &s);
  }
  ect_show_close(&s);
  return status;
}
