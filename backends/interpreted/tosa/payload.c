/* Verification of a payload's structure, and its blocks as blocks of a graph. */
#include "payload.h"

#include <string.h>

#include "../fb_text.h"

/* Field ids of schema.def, and the types of its unions and enums. */
enum {
#define EC_FB_PREFIX ETS
#include "format/fields.h"
#include "schema.def"
#undef EC_FB_PREFIX
};

/* Last, because it redefines the macros of schema.def. */
#include "format/schema.h"

enum { MIN_BYTES = 12, MAJOR = 1, NEWEST_MINOR = 1 };

static const ec_fb_schema *const union_Attribute[ETS_OPERATORS];

#include "schema.def"

/* The schemas of attributes, by the operator's number, which is also the type of the union. */
static const ec_fb_schema *const union_Attribute[ETS_OPERATORS] = {
#define ETS_OP(number, name, attributes, ...) [number] = &schema_##attributes,
#define ETS_LATER(number, name, attributes) [number] = &schema_##attributes,
#include "operators.def"
};

const ec_fb_schema *ets_payload_schema(void) { return &schema_TosaGraph; }

const ec_fb_schema *ets_attributes(uint32_t op) { return union_Attribute[op]; }

/* A block that is being read. */
typedef struct reader {
  ect_graph *g;
  ec_fb_table block;
  uint32_t number; /* of the block */
  ect_names names; /* numbers of operands */
} reader;

/* ---- values ---------------------------------------------------------------------------------- */

static uint32_t define(reader *r, ec_fb_table table, unsigned name, ect_operand *o) {
  const ec_backend_call *c = &r->g->c;
  uint32_t number;
  o->name = ect_fb_text(table, name);
  if (!ec_fb_field_at(table, name))
    return EC_BACKEND_FAIL(c, EC_BACKEND_INVALID_PROGRAM, "a tensor or shape has no name");
  if (o->rank > ECT_MAX_RANK)
    return EC_BACKEND_FAIL(c, EC_BACKEND_NOT_SUPPORTED,
                           "'%.*s' has %u dimensions or numbers, at most %d are",
                           ECT_CLIP(o->name, 64), (unsigned)o->rank, ECT_MAX_RANK);
  if (ect_names_find(&r->names, o->name) != UINT32_MAX)
    return EC_BACKEND_FAIL(c, EC_BACKEND_INVALID_PROGRAM,
                           "two tensors or shapes have the name '%.*s'", ECT_CLIP(o->name, 64));
  EC_BACKEND_TRY(ect_add_operand(r->g, o, &number));
  if (!ect_names_set(&r->names, o->name, number))
    return EC_BACKEND_FAIL(c, EC_BACKEND_ALLOCATION_FAILED, "no memory for names");
  return EC_BACKEND_OK;
}

static uint32_t read_tensor(reader *r, ec_fb_table table) {
  const ec_fb_vec shape = ec_fb_vector(table, ETS_TosaTensor_shape);
  const ec_fb_vec data = ec_fb_vector(table, ETS_TosaTensor_data);
  const ect_text name = ect_fb_text(table, ETS_TosaTensor_name);
  ect_operand o = ect_operand_new(ECT_TENSOR);
  ets_set_dtype(&o, ec_fb_u32(table, ETS_TosaTensor_type));
  o.rank = shape.count;
  o.data = data.count ? data.items : NULL;
  o.data_size = data.count;
  if (ec_fb_bool(table, ETS_TosaTensor_is_unranked))
    return EC_BACKEND_FAIL(&r->g->c, EC_BACKEND_NOT_SUPPORTED, "'%.*s' has no rank",
                           ECT_CLIP(name, 64));
  if (!data.items && ec_fb_u64(table, ETS_TosaTensor_size))
    return EC_BACKEND_FAIL(&r->g->c, EC_BACKEND_NOT_SUPPORTED,
                           "the elements of '%.*s' are in another file, which no program has",
                           ECT_CLIP(name, 64));
  for (uint32_t d = 0; d < shape.count && d < ECT_MAX_RANK; d++) {
    o.sizes[d] = ec_fb_vec_i32(shape, d);
    if (o.sizes[d] < 0)
      return EC_BACKEND_FAIL(&r->g->c, EC_BACKEND_NOT_SUPPORTED,
                             "dimension %u of '%.*s' is %lld: only static shapes are supported",
                             (unsigned)d, ECT_CLIP(name, 64), (long long)o.sizes[d]);
  }
  return define(r, table, ETS_TosaTensor_name, &o);
}

static uint32_t read_shape(reader *r, ec_fb_table table) {
  const ec_fb_vec data = ec_fb_vector(table, ETS_TosaShape_data);
  ect_operand o = ect_operand_new(ECT_TENSOR);
  ets_set_dtype(&o, ETS_SHAPE);
  o.rank = ec_fb_u32(table, ETS_TosaShape_rank);
  o.data = data.items;
  o.data_size = data.count;
  o.width = data.count ? 8 : 0;
  for (uint32_t d = 0; d < o.rank && d < ECT_MAX_RANK && data.count / 8 >= o.rank; d++)
    o.sizes[d] = ec_fb_vec_i64(data, d);
  return define(r, table, ETS_TosaShape_name, &o);
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

/* Appends links to the operands of a list of names. `what` is the list, for messages. */
static uint32_t read_names(reader *r, ec_fb_vec names, const char *what, uint32_t *count) {
  for (uint32_t i = 0; i < names.count; i++) {
    const ect_text name = ect_fb_text_at(names, i);
    const uint32_t operand = ect_names_find(&r->names, name);
    if (operand == UINT32_MAX)
      return EC_BACKEND_FAIL(&r->g->c, EC_BACKEND_INVALID_PROGRAM,
                             "'%.*s' of the %s is not a tensor or shape of the block",
                             ECT_CLIP(name, 64), what);
    EC_BACKEND_TRY(ect_add_link(r->g, (ect_text){0}, operand));
  }
  *count = names.count;
  return EC_BACKEND_OK;
}

static ect_operand read_attribute(ec_fb_table table, const ec_fb_field *field) {
  if (field->type == EC_FB_STRING) return ect_text_new(ect_fb_text(table, field->id));
  if (field->type == EC_FB_VECTOR) {
    const ec_fb_vec items = ec_fb_vector(table, field->id);
    return ect_list_new(ECT_INT_LIST, items.items, items.count, field->size);
  }
  const uint64_t number = ec_fb_get(table, field->id, field->size, 0);
  return ect_number_new(ECT_INT, field->size == 4 ? (uint64_t)(int32_t)number : number);
}

static uint32_t read_attributes(reader *r, ec_fb_table table, ect_node *n) {
  const ec_fb_schema *schema = union_Attribute[n->kind];
  const uint8_t type = ec_fb_u8(table, ETS_TosaOperator_attribute_type);
  if (type && type != n->kind)
    return EC_BACKEND_FAIL(&r->g->c, EC_BACKEND_INVALID_PROGRAM,
                           "operator %u has number %u and attributes of %u", (unsigned)n->number,
                           (unsigned)n->kind, type);
  const ec_fb_table attribute = ec_fb_union(table, ETS_TosaOperator_attribute, (uint8_t)n->kind);
  for (; attribute && n->attribute_count < schema->field_count; n->attribute_count++) {
    const ec_fb_field *field = &schema->fields[n->attribute_count];
    const ect_operand o = read_attribute(attribute, field);
    uint32_t number;
    EC_BACKEND_TRY(ect_add_operand(r->g, &o, &number));
    EC_BACKEND_TRY(ect_add_link(r->g, ect_text_of(field->name), number));
  }
  return EC_BACKEND_OK;
}

static uint32_t read_operator(reader *r, ec_fb_table table) {
  ect_node n = {.kind = ec_fb_u32(table, ETS_TosaOperator_op),
                .number = (uint32_t)r->g->node_count, .first = (uint32_t)r->g->link_count};
  if (n.kind >= ETS_OPERATORS || !union_Attribute[n.kind])
    return EC_BACKEND_FAIL(
        &r->g->c, EC_BACKEND_NOT_SUPPORTED,
        "operator %u has the number %u, which no operator of TOSA 1.0 or 1.1 has",
        (unsigned)n.number, (unsigned)n.kind);
  ets_name_node(&n);
  EC_BACKEND_TRY(read_names(r, ec_fb_vector(table, ETS_TosaOperator_inputs),
                            "inputs of an operator", &n.input_count));
  EC_BACKEND_TRY(read_names(r, ec_fb_vector(table, ETS_TosaOperator_outputs),
                            "outputs of an operator", &n.output_count));
  EC_BACKEND_TRY(read_attributes(r, table, &n));
  return ect_add_node(r->g, r->number, &n);
}

/* Checks that the graph's inputs are no constants, and different. */
static uint32_t check_inputs(ect_graph *g, const ect_block *b) {
  for (uint32_t i = 0; i < b->input_count; i++) {
    ect_operand *o = &g->operands[g->links[b->first_input + i].operand];
    if (o->is_defined || o->data)
      return EC_BACKEND_FAIL(&g->c, EC_BACKEND_INVALID_PROGRAM,
                             "input %u of the block is a constant or another input", (unsigned)i);
    o->is_defined = true;
  }
  return EC_BACKEND_OK;
}

static uint32_t read_block(reader *r, ect_text name) {
  const ec_fb_vec operators = ec_fb_vector(r->block, ETS_TosaBasicBlock_operators);
  EC_BACKEND_TRY(read_values(r));
  ect_block b = {.name = name, .first_input = (uint32_t)r->g->link_count};
  EC_BACKEND_TRY(read_names(r, ec_fb_vector(r->block, ETS_TosaBasicBlock_inputs),
                            "inputs of the block", &b.input_count));
  b.first_output = (uint32_t)r->g->link_count;
  EC_BACKEND_TRY(read_names(r, ec_fb_vector(r->block, ETS_TosaBasicBlock_outputs),
                            "outputs of the block", &b.output_count));
  if (!r->g->block_count) EC_BACKEND_TRY(check_inputs(r->g, &b));
  EC_BACKEND_TRY(ect_add_block(r->g, &b, &r->number));
  for (uint32_t i = 0; i < operators.count; i++)
    EC_BACKEND_TRY(read_operator(r, ec_fb_vec_table(operators, i)));
  return EC_BACKEND_OK;
}

static uint32_t read_region(ect_graph *g, ec_fb_table region) {
  const ec_fb_vec blocks = ec_fb_vector(region, ETS_TosaRegion_blocks);
  const ect_text name = ect_fb_text(region, ETS_TosaRegion_name);
  if (blocks.count != 1)
    return EC_BACKEND_FAIL(&g->c, EC_BACKEND_NOT_SUPPORTED,
                           "region '%.*s' has %u blocks, expected 1", ECT_CLIP(name, 64),
                           (unsigned)blocks.count);
  reader r = {.g = g, .block = ec_fb_vec_table(blocks, 0), .names.host = g->c.host};
  const uint32_t status = read_block(&r, name);
  ect_names_free(&r.names);
  return status;
}

uint32_t ets_read_payload(ect_graph *g, const ec_backend_init *what) {
  const void *data = what->payload;
  const size_t size = what->payload_size;
  ec_error err = {0};
  if (size < MIN_BYTES || memcmp((const char *)data + 4, "TOSA", 4) != 0)
    return EC_BACKEND_FAIL(&g->c, EC_BACKEND_INVALID_PROGRAM,
                           "payload: %zu bytes without the identifier 'TOSA'", size);
  const ec_status status = ec_fb_verify(data, size, &schema_TosaGraph, "payload", &err);
  if (status != EC_OK) return EC_BACKEND_FAIL(&g->c, (uint32_t)status, "%s", err.message);
  const ec_fb_table root = ec_fb_root(data);
  const ec_fb_table version = ec_fb_child(root, ETS_TosaGraph_version);
  const ec_fb_vec regions = ec_fb_vector(root, ETS_TosaGraph_regions);
  const int32_t major = (int32_t)ec_fb_get(version, ETS_Version_major, 4, UINT32_MAX);
  const int32_t minor = ec_fb_i32(version, ETS_Version_minor);
  if (major != MAJOR || minor < 0 || minor > NEWEST_MINOR)
    return EC_BACKEND_FAIL(&g->c, EC_BACKEND_INCOMPATIBLE,
                           "payload: TOSA version %d.%d, expected %d.0 to %d.%d", (int)major,
                           (int)minor, MAJOR, MAJOR, NEWEST_MINOR);
  if (!regions.count)
    return EC_BACKEND_FAIL(&g->c, EC_BACKEND_INVALID_PROGRAM, "payload: the graph has no region");
  for (uint32_t i = 0; i < regions.count; i++)
    EC_BACKEND_TRY(read_region(g, ec_fb_vec_table(regions, i)));
  return EC_BACKEND_OK;
}
