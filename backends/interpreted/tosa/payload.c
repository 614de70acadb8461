/* Verification of a payload's structure, and its blocks as blocks of a graph. */
#include "payload.h"

#include <string.h>

#include "../names.h"
#include "fields.h"
/* Last, because it redefines the macros of schema.def. */
#include "format/schema.h"

enum { SMALLEST = 12, MAJOR = 1 };

static const ec_fb_schema *const union_Attribute[ETS_OPERATORS];

#include "schema.def"

/* The schemas of attributes, by the operator's number, which is also the type of the union. */
static const ec_fb_schema *const union_Attribute[ETS_OPERATORS] = {
#define ETS_OP(number, name, attributes, ...) [number] = &schema_##attributes,
#define ETS_LATER(number, name, attributes) [number] = &schema_##attributes,
#include "operators.def"
};

const ec_fb_schema *ets_payload_schema(void) { return &schema_TosaGraph; }

const char *ets_attribute_name(uint32_t op, size_t index) {
  const ec_fb_schema *schema = union_Attribute[op];
  return schema && index < schema->field_count ? schema->fields[index].name : NULL;
}

/* A block that is being read. */
typedef struct reader {
  ets_graph *g;
  ec_fb_table block;
  ect_names names; /* numbers of values */
} reader;

static ect_text text_of(const char *name) {
  return (ect_text){(const uint8_t *)name, name ? strlen(name) : 0};
}

/* ---- values ---------------------------------------------------------------------------------- */

static uint32_t define(reader *r, const ets_value *value) {
  uint32_t number;
  if (!value->name)
    return EC_BACKEND_FAIL(&r->g->c, EC_BACKEND_INVALID_PROGRAM, "a tensor or shape has no name");
  if (ect_names_find(&r->names, text_of(value->name)) != UINT32_MAX)
    return EC_BACKEND_FAIL(&r->g->c, EC_BACKEND_INVALID_PROGRAM,
                           "two tensors or shapes have the name "
                           "'%.64s'",
                           value->name);
  EC_BACKEND_TRY(ets_add_value(r->g, value, &number));
  if (!ect_names_set(&r->names, text_of(value->name), number))
    return EC_BACKEND_FAIL(&r->g->c, EC_BACKEND_ALLOCATION_FAILED, "no memory for names");
  return EC_BACKEND_OK;
}

static uint32_t read_tensor(reader *r, ec_fb_table table) {
  const ec_backend_call *c = &r->g->c;
  const ec_fb_vec shape = ec_fb_vector(table, ETS_TosaTensor_shape);
  const ec_fb_vec data = ec_fb_vector(table, ETS_TosaTensor_data);
  ets_value v = {.name = ec_fb_string(table, ETS_TosaTensor_name),
                 .dtype = ec_fb_u32(table, ETS_TosaTensor_type), .rank = shape.count,
                 .data = data.count ? data.items : NULL, .data_size = data.count,
                 .id = ECT_NO_VALUE};
  const char *name = v.name ? v.name : "";
  if (shape.count > ECT_MAX_RANK)
    return EC_BACKEND_FAIL(c, EC_BACKEND_NOT_SUPPORTED, "'%.64s' has %u dimensions, at most %d are",
                           name, (unsigned)shape.count, ECT_MAX_RANK);
  if (ec_fb_bool(table, ETS_TosaTensor_is_unranked))
    return EC_BACKEND_FAIL(c, EC_BACKEND_NOT_SUPPORTED, "'%.64s' has no rank", name);
  if (!data.items && ec_fb_u64(table, ETS_TosaTensor_size))
    return EC_BACKEND_FAIL(c, EC_BACKEND_NOT_SUPPORTED,
                           "the elements of '%.64s' are in another file, which no program has",
                           name);
  for (uint32_t d = 0; d < shape.count; d++) {
    v.sizes[d] = ec_fb_vec_i32(shape, d);
    if (v.sizes[d] < 0)
      return EC_BACKEND_FAIL(c, EC_BACKEND_NOT_SUPPORTED,
                             "dimension %u of '%.64s' is %lld: only static shapes are supported",
                             (unsigned)d, name, (long long)v.sizes[d]);
  }
  return define(r, &v);
}

static uint32_t read_shape(reader *r, ec_fb_table table) {
  const ec_fb_vec data = ec_fb_vector(table, ETS_TosaShape_data);
  ets_value v = {.name = ec_fb_string(table, ETS_TosaShape_name), .dtype = ETS_SHAPE,
                 .rank = ec_fb_u32(table, ETS_TosaShape_rank), .data = data.items,
                 .data_size = data.count, .id = ECT_NO_VALUE};
  const char *name = v.name ? v.name : "";
  if (v.rank > ECT_MAX_RANK)
    return EC_BACKEND_FAIL(&r->g->c, EC_BACKEND_NOT_SUPPORTED,
                           "'%.64s' has %u numbers, at most %d are", name, (unsigned)v.rank,
                           ECT_MAX_RANK);
  for (uint32_t d = 0; d < v.rank && data.count / 8 >= v.rank; d++)
    v.sizes[d] = ec_fb_vec_i64(data, d);
  return define(r, &v);
}

static uint32_t read_values(reader *r) {
  const ec_fb_vec tensors = ec_fb_vector(r->block, ETS_TosaBasicBlock_tensors);
  const ec_fb_vec shapes = ec_fb_vector(r->block, ETS_TosaBasicBlock_shapes);
  for (uint32_t i = 0; i < tensors.count; i++)
    EC_BACKEND_TRY(read_tensor(r, ec_fb_vec_table(tensors, i)));
  for (uint32_t i = 0; i < shapes.count; i++)
    EC_BACKEND_TRY(read_shape(r, ec_fb_vec_table(shapes, i)));
  return EC_BACKEND_OK;
}

/* ---- operators ------------------------------------------------------------------------------- */

/* Appends the values of a list of names. `what` is the list, for messages. */
static uint32_t read_names(reader *r, ec_fb_vec names, const char *what, uint32_t *count) {
  for (uint32_t i = 0; i < names.count; i++) {
    const char *name = ec_fb_vec_string(names, i);
    const uint32_t value = ect_names_find(&r->names, text_of(name));
    if (value == UINT32_MAX)
      return EC_BACKEND_FAIL(&r->g->c, EC_BACKEND_INVALID_PROGRAM,
                             "'%.64s' of the %s is not a tensor or shape of the block", name, what);
    EC_BACKEND_TRY(ets_add_operand(r->g, value));
  }
  *count = names.count;
  return EC_BACKEND_OK;
}

static ets_attribute read_attribute(ec_fb_table table, const ec_fb_field *field) {
  static const uint8_t zeros[8];
  const uint8_t *at = ec_fb_field_at(table, field->id);
  if (field->type == EC_FB_SCALAR) return (ets_attribute){at ? at : zeros, 1, field->size};
  if (field->type == EC_FB_STRING)
    return (ets_attribute){(const uint8_t *)ec_fb_string(table, field->id),
                           ec_fb_string_size(table, field->id), 1};
  const ec_fb_vec items = ec_fb_vector(table, field->id);
  return (ets_attribute){items.items, items.count, field->size};
}

static uint32_t read_attributes(reader *r, ec_fb_table table, ets_node *n) {
  const ec_fb_schema *schema = union_Attribute[n->op];
  const uint8_t type = ec_fb_u8(table, ETS_TosaOperator_attribute_type);
  if (type && type != n->op)
    return EC_BACKEND_FAIL(&r->g->c, EC_BACKEND_INVALID_PROGRAM,
                           "operator %u has number %u and attributes of %u", (unsigned)n->number,
                           (unsigned)n->op, type);
  const ec_fb_table attribute = ec_fb_union(table, ETS_TosaOperator_attribute, (uint8_t)n->op);
  for (size_t i = 0; attribute && i < schema->field_count; i++)
    n->attributes[i] = read_attribute(attribute, &schema->fields[i]);
  return EC_BACKEND_OK;
}

static uint32_t read_operator(reader *r, ec_fb_table table) {
  ets_node n = {.op = ec_fb_u32(table, ETS_TosaOperator_op),
                .number = (uint32_t)r->g->node_count, .first = (uint32_t)r->g->operand_count};
  if (n.op >= ETS_OPERATORS || !union_Attribute[n.op])
    return EC_BACKEND_FAIL(
        &r->g->c, EC_BACKEND_NOT_SUPPORTED,
        "operator %u has the number %u, which no operator of TOSA 1.0 or 1.1 has",
        (unsigned)n.number, (unsigned)n.op);
  EC_BACKEND_TRY(read_attributes(r, table, &n));
  EC_BACKEND_TRY(read_names(r, ec_fb_vector(table, ETS_TosaOperator_inputs),
                            "inputs of an operator", &n.input_count));
  EC_BACKEND_TRY(read_names(r, ec_fb_vector(table, ETS_TosaOperator_outputs),
                            "outputs of an operator", &n.output_count));
  return ets_add_node(r->g, &n);
}

static uint32_t read_block(reader *r, const char *name) {
  const ec_fb_vec operators = ec_fb_vector(r->block, ETS_TosaBasicBlock_operators);
  EC_BACKEND_TRY(read_values(r));
  ets_block b = {.name = name, .first = (uint32_t)r->g->operand_count,
                 .first_node = (uint32_t)r->g->node_count, .node_count = operators.count};
  EC_BACKEND_TRY(read_names(r, ec_fb_vector(r->block, ETS_TosaBasicBlock_inputs),
                            "inputs of the block", &b.input_count));
  EC_BACKEND_TRY(read_names(r, ec_fb_vector(r->block, ETS_TosaBasicBlock_outputs),
                            "outputs of the block", &b.output_count));
  for (uint32_t i = 0; i < operators.count; i++)
    EC_BACKEND_TRY(read_operator(r, ec_fb_vec_table(operators, i)));
  return ets_add_block(r->g, &b);
}

static uint32_t read_region(ets_graph *g, ec_fb_table region) {
  const ec_fb_vec blocks = ec_fb_vector(region, ETS_TosaRegion_blocks);
  const char *name = ec_fb_string(region, ETS_TosaRegion_name);
  if (blocks.count != 1)
    return EC_BACKEND_FAIL(&g->c, EC_BACKEND_NOT_SUPPORTED,
                           "region '%.64s' has %u blocks, expected 1", name ? name : "",
                           (unsigned)blocks.count);
  reader r = {.g = g, .block = ec_fb_vec_table(blocks, 0), .names.host = g->c.host};
  const uint32_t status = read_block(&r, name ? name : "");
  ect_names_free(&r.names);
  return status;
}

uint32_t ets_read_payload(void *graph, const ec_backend_call *c, const ec_backend_init *what) {
  ets_graph *g = graph;
  const void *data = what->payload;
  const size_t size = what->payload_size;
  ec_error err = {0};
  g->c = *c;
  if (size < SMALLEST || memcmp((const char *)data + 4, "TOSA", 4) != 0)
    return EC_BACKEND_FAIL(&g->c, EC_BACKEND_INVALID_PROGRAM,
                           "payload: %zu bytes without the identifier 'TOSA'", size);
  const ec_status status = ec_fb_verify(data, size, &schema_TosaGraph, "payload", &err);
  if (status != EC_OK) return EC_BACKEND_FAIL(&g->c, (uint32_t)status, "%s", err.message);
  const ec_fb_table root = ec_fb_root(data);
  const ec_fb_table version = ec_fb_child(root, ETS_TosaGraph_version);
  const ec_fb_vec regions = ec_fb_vector(root, ETS_TosaGraph_regions);
  const int32_t major = (int32_t)ec_fb_get(version, ETS_Version_major, 4, UINT32_MAX);
  if (major != MAJOR)
    return EC_BACKEND_FAIL(&g->c, EC_BACKEND_INCOMPATIBLE,
                           "payload: TOSA version %d, expected %d.0 or %d.1", (int)major, MAJOR,
                           MAJOR);
  if (!regions.count)
    return EC_BACKEND_FAIL(&g->c, EC_BACKEND_INVALID_PROGRAM, "payload: the graph has no region");
  for (uint32_t i = 0; i < regions.count; i++)
    EC_BACKEND_TRY(read_region(g, ec_fb_vec_table(regions, i)));
  return EC_BACKEND_OK;
}
