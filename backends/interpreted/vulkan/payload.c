/* Verification of a payload's structure. */
#include "payload.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "../fb_text.h"
#include "call.h"
#include "core/checked.h"

/* Field ids of schema.def, and the types of its unions and enums. */
enum {
#define EC_FB_PREFIX ECV
#include "format/fields.h"
#include "schema.def"
#undef EC_FB_PREFIX
};

/* Union GraphTypes. */
enum {
  ECV_NULL = 1, ECV_INT, ECV_DOUBLE, ECV_BOOL, ECV_TENSOR, ECV_INT_LIST, ECV_DOUBLE_LIST,
  ECV_BOOL_LIST, ECV_VALUE_LIST, ECV_STRING, ECV_SYM_INT, ECV_TYPES
};

/* Last, because it redefines the macros of schema.def. */
#include "format/schema.h"

static const ec_fb_schema *const union_GraphTypes[ECV_TYPES];

#include "schema.def"

static const ec_fb_schema *const union_GraphTypes[ECV_TYPES] = {
    [ECV_NULL] = &schema_Null,           [ECV_INT] = &schema_Int,
    [ECV_DOUBLE] = &schema_Double,       [ECV_BOOL] = &schema_Bool,
    [ECV_TENSOR] = &schema_VkTensor,     [ECV_INT_LIST] = &schema_IntList,
    [ECV_DOUBLE_LIST] = &schema_DoubleList, [ECV_BOOL_LIST] = &schema_BoolList,
    [ECV_VALUE_LIST] = &schema_ValueList, [ECV_STRING] = &schema_String,
    [ECV_SYM_INT] = &schema_SymInt,
};

const ec_fb_schema *ecv_payload_schema(void) { return &schema_VkGraph; }

/* VkDataType of a value that does not state one. */
enum { UNSET = 127 };

/* A payload that is being read. The operands' numbers are the values' ids. */
typedef struct reader {
  ect_graph *g;
  ec_fb_table graph;    /* verified */
  const uint8_t *bytes; /* of constants */
  size_t bytes_size;
  uint32_t missing; /* the operand of ids that no value has; ECT_ABSENT: none yet */
} reader;

/* ---- the bytes ------------------------------------------------------------------------------- */

/* The header: four zero bytes, "VH00", u16 length, then the numbers below. */
enum {
  NEWEST_VERSION = 0, /* of the schema */
  MAGIC_AT = 4,
  LENGTH_AT = 8,
  GRAPH_OFFSET_AT = 10,
  GRAPH_SIZE_AT = 14,
  BYTES_OFFSET_AT = 18,
  BYTES_SIZE_AT = 22,
  HEADER_BYTES = 30,
  MIN_GRAPH_BYTES = 12
};

static uint32_t read_header(const ec_backend_call *c, const uint8_t *data, size_t size,
                            const uint8_t **graph, size_t *graph_size, reader *out) {
  if (size < HEADER_BYTES || memcmp(data + MAGIC_AT, "VH00", 4) != 0)
    return EC_BACKEND_FAIL(
        c, EC_BACKEND_INVALID_PROGRAM,
        "payload: %zu bytes without the header of a Vulkan graph, expected 'VH00'", size);
  const unsigned length = data[LENGTH_AT] | (unsigned)data[LENGTH_AT + 1] << 8;
  const uint32_t at = ec_read_u32(data + GRAPH_OFFSET_AT);
  const uint32_t graph_bytes = ec_read_u32(data + GRAPH_SIZE_AT);
  const uint32_t bytes_at = ec_read_u32(data + BYTES_OFFSET_AT);
  uint64_t bytes = ec_read_u64(data + BYTES_SIZE_AT);
  if (length < HEADER_BYTES || at < length || graph_bytes < MIN_GRAPH_BYTES ||
      !ec_in_range(at, graph_bytes, size))
    return EC_BACKEND_FAIL(
        c, EC_BACKEND_INVALID_PROGRAM,
        "payload: the header of %u bytes states a graph of %u bytes at offset %u in a "
        "payload of %zu bytes",
        length, (unsigned)graph_bytes, (unsigned)at, size);
  if (bytes_at < (uint64_t)at + graph_bytes || bytes_at > size ||
      !ec_in_range(bytes_at, bytes, size))
    return EC_BACKEND_FAIL(c, EC_BACKEND_INVALID_PROGRAM,
                           "payload: the header states %" PRIu64
                           " bytes of constants at offset %u in a "
                           "payload of %zu bytes whose graph ends at %" PRIu64,
                           bytes, (unsigned)bytes_at, size, (uint64_t)at + graph_bytes);
  if (bytes == 0) bytes = size - bytes_at;
  *graph = data + at;
  *graph_size = graph_bytes;
  out->bytes = data + bytes_at;
  out->bytes_size = (size_t)bytes;
  return EC_BACKEND_OK;
}

static uint32_t open_payload(reader *r, const ec_backend_init *what) {
  const ec_backend_call *c = &r->g->c;
  const uint8_t *graph = NULL;
  size_t size = 0;
  ec_error err = {0};
  EC_BACKEND_TRY(read_header(c, what->payload, what->payload_size, &graph, &size, r));
  if (memcmp(graph + 4, "VK00", 4) != 0)
    return EC_BACKEND_FAIL(c, EC_BACKEND_INCOMPATIBLE,
                           "payload: the graph has identifier '%.4s', expected 'VK00'",
                           (const char *)graph + 4);
  ec_status status = ec_fb_verify(graph, size, &schema_VkGraph, "payload", &err);
  if (status == EC_OK)
    status = ec_fb_check_text_version(ec_fb_root(graph), ECV_VkGraph_version, NEWEST_VERSION,
                                      EC_DELEGATE_INCOMPATIBLE, &err);
  if (status != EC_OK) return EC_BACKEND_FAIL(c, (uint32_t)status, "%s", err.message);
  r->graph = ec_fb_root(graph);
  if (ec_fb_vector(r->graph, ECV_VkGraph_shaders).count)
    return EC_BACKEND_FAIL(c, EC_BACKEND_NOT_SUPPORTED,
                           "payload: the graph has shaders of its own, expected none");
  return EC_BACKEND_OK;
}

/* A constant's bytes follow the graph, or are named data. */
static uint32_t read_constants(reader *r) {
  const ec_fb_vec rows = ec_fb_vector(r->graph, ECV_VkGraph_constants);
  for (uint32_t i = 0; i < rows.count; i++) {
    const ec_fb_table row = ec_fb_vec_table(rows, i);
    const uint64_t offset = ec_fb_u64(row, ECV_VkBytes_offset);
    const uint64_t length = ec_fb_u64(row, ECV_VkBytes_length);
    const char *key = ec_fb_string(row, ECV_VkBytes_named_key);
    ect_group group = {.key = key ? key : "(no name)"};
    uint32_t number;
    if (offset != UINT64_MAX) {
      if (!ec_in_range(offset, length, r->bytes_size))
        return EC_BACKEND_FAIL(&r->g->c, EC_BACKEND_INVALID_PROGRAM,
                               "constant %u of %" PRIu64 " bytes at %" PRIu64
                               " does not fit into %zu bytes",
                               (unsigned)i, length, offset, r->bytes_size);
      group = (ect_group){.data = r->bytes + offset, .size = (size_t)length};
    }
    EC_BACKEND_TRY(ect_add_group(r->g, &group, &number));
  }
  return EC_BACKEND_OK;
}

/* ---- values ---------------------------------------------------------------------------------- */

/* Returns the c10::ScalarType of a VkDataType; -1: none. */
static int32_t scalar_type(uint8_t datatype) {
  static const int8_t types[] = {EC_DTYPE_BOOL,    EC_DTYPE_UINT8,   EC_DTYPE_INT8,
                                 EC_DTYPE_INT32,   EC_DTYPE_FLOAT16, EC_DTYPE_FLOAT32,
                                 EC_DTYPE_FLOAT64, EC_DTYPE_INT64};
  return datatype < sizeof types ? types[datatype] : -1;
}

static ect_operand read_tensor(reader *r, uint32_t id, ec_fb_table table) {
  ect_graph *g = r->g;
  ect_operand o = ect_operand_new(ECT_TENSOR);
  const ec_fb_vec dims = ec_fb_vector(table, ECV_VkTensor_dims);
  const uint8_t datatype = ec_fb_u8(table, ECV_VkTensor_datatype);
  const uint8_t staging = (uint8_t)ec_fb_get(table, ECV_VkTensor_staging_datatype, 1, UNSET);
  const int32_t constant = ec_fb_i32(table, ECV_VkTensor_constant_id);
  o.source = table;
  o.is_dynamic = true;
  o.scalar_type = scalar_type(datatype);
  o.border_type = scalar_type(staging);
  o.rank = dims.count < ECT_MAX_RANK ? dims.count : ECT_MAX_RANK;
  if (o.scalar_type < 0)
    ect_set_fault(g, &o, EC_BACKEND_NOT_SUPPORTED, "value %u has the unknown datatype %u",
                  (unsigned)id, datatype);
  if (o.border_type < 0 && staging != UNSET)
    ect_set_fault(g, &o, EC_BACKEND_NOT_SUPPORTED, "value %u has the unknown staging datatype %u",
                  (unsigned)id, staging);
  if (dims.count > ECT_MAX_RANK)
    ect_set_fault(g, &o, EC_BACKEND_NOT_SUPPORTED,
                  "value %u has %u dimensions, at most %d are supported", (unsigned)id,
                  (unsigned)dims.count, ECT_MAX_RANK);
  for (uint32_t d = 0; d < o.rank; d++) {
    o.sizes[d] = (uint32_t)ec_fb_vec_i32(dims, d);
    if (o.sizes[d] > INT32_MAX)
      ect_set_fault(g, &o, EC_BACKEND_INVALID_PROGRAM,
                    "dimension %u of value %u has %u elements, expected less than 2147483648",
                    (unsigned)d, (unsigned)id, (unsigned)o.sizes[d]);
  }
  if (constant >= 0 && (uint32_t)constant >= g->group_count)
    ect_set_fault(g, &o, EC_BACKEND_INVALID_PROGRAM, "constant %d, the graph has %zu of them",
                  (int)constant, g->group_count);
  else if (constant >= 0) o.group = (uint32_t)constant;
  return o;
}

static ect_operand read_symbol(reader *r, uint32_t id, ec_fb_table table) {
  enum { NAME_BYTES = 16 };
  ect_operand o = ect_number_new(ECT_INT, (uint64_t)ec_fb_i32(table, ECV_SymInt_value));
  char *name = ect_own(&r->g->program, NAME_BYTES);
  if (name) snprintf(name, NAME_BYTES, "s%u", (unsigned)id);
  o.name = ect_text_of(name);
  return o;
}

static ect_operand missing(const reader *r, int64_t id) {
  ect_operand o = ect_operand_new(ECT_NONE);
  ect_set_fault(r->g, &o, EC_BACKEND_INVALID_PROGRAM,
                "value %d does not exist, or has no content; the graph has %u values", (int)id,
                (unsigned)ec_fb_vector(r->graph, ECV_VkGraph_values).count);
  return o;
}

static ect_operand read_value(reader *r, uint32_t id, ec_fb_table row) {
  const uint8_t type = ec_fb_u8(row, ECV_VkValue_value_type);
  const ec_fb_table table = type < ECV_TYPES ? ec_fb_child(row, ECV_VkValue_value) : NULL;
  if (!table || !type) return missing(r, id);
  const ec_fb_vec items = type >= ECV_INT_LIST && type <= ECV_BOOL_LIST ? ec_fb_vector(table, 0)
                                                                        : (ec_fb_vec){0};
  switch (type) {
  case ECV_INT: return ect_number_new(ECT_INT, ec_fb_u64(table, ECV_Int_int_val));
  case ECV_DOUBLE: return ect_number_new(ECT_DOUBLE, ec_fb_u64(table, ECV_Double_double_val));
  case ECV_BOOL: return ect_number_new(ECT_BOOL, ec_fb_bool(table, ECV_Bool_bool_val));
  case ECV_TENSOR: return read_tensor(r, id, table);
  case ECV_INT_LIST: return ect_list_new(ECT_INT_LIST, items.items, items.count, 8);
  case ECV_DOUBLE_LIST: return ect_list_new(ECT_DOUBLE_LIST, items.items, items.count, 8);
  case ECV_BOOL_LIST: return ect_list_new(ECT_BOOL_LIST, items.items, items.count, 1);
  case ECV_STRING:
    if (!ec_fb_string(table, ECV_String_string_val)) return ect_operand_new(ECT_NONE);
    return ect_text_new((ect_text){(const uint8_t *)ec_fb_string(table, ECV_String_string_val),
                                   ec_fb_string_size(table, ECV_String_string_val)});
  case ECV_SYM_INT: return read_symbol(r, id, table);
  default: break;
  }
  ect_operand o = ect_operand_new(type == ECV_VALUE_LIST ? ECT_TENSOR_LIST : ECT_NONE);
  o.source = type == ECV_VALUE_LIST ? table : NULL;
  return o;
}

/* Finds the operand of an id, which may be wrong: then one with a fault. */
static uint32_t find_operand(reader *r, int64_t id, uint32_t *out) {
  *out = (uint32_t)id;
  if (id >= 0 && id < ec_fb_vector(r->graph, ECV_VkGraph_values).count) return EC_BACKEND_OK;
  if (r->missing == ECT_ABSENT) {
    const ect_operand o = missing(r, id);
    EC_BACKEND_TRY(ect_add_operand(r->g, &o, &r->missing));
  }
  *out = r->missing;
  return EC_BACKEND_OK;
}

/* Reads the items of a list of values, whose kinds are known. */
static uint32_t read_items(reader *r, uint32_t id, ec_fb_vec items) {
  ect_graph *g = r->g;
  uint32_t tensors = 0, none = 0;
  const uint32_t first = (uint32_t)g->item_count;
  for (uint32_t i = 0; i < items.count; i++) {
    uint32_t item;
    EC_BACKEND_TRY(find_operand(r, ec_fb_vec_i32(items, i), &item));
    EC_BACKEND_TRY(ect_add_item(g, item));
    const ect_operand *o = &g->operands[item];
    const bool is_list = o->kind >= ECT_INT_LIST, is_missing = o->kind == ECT_NONE && o->fault;
    tensors += o->kind == ECT_TENSOR;
    none += o->kind == ECT_NONE;
    if (is_list || is_missing)
      ect_set_fault(g, &g->operands[id], EC_BACKEND_INVALID_PROGRAM,
                    "item %u of value list %u is %s, expected a tensor or a number", (unsigned)i,
                    (unsigned)id, is_list ? "a list" : "no value");
  }
  ect_operand *list = &g->operands[id];
  list->first = first;
  list->count = items.count;
  list->kind = none ? ECT_OPTIONAL_TENSOR_LIST : tensors ? ECT_TENSOR_LIST : ECT_INT_LIST;
  if (none && tensors + none != items.count)
    ect_set_fault(g, list, EC_BACKEND_INVALID_PROGRAM, "value list %u mixes None and numbers",
                  (unsigned)id);
  return EC_BACKEND_OK;
}

static uint32_t read_values(reader *r) {
  const ec_fb_vec values = ec_fb_vector(r->graph, ECV_VkGraph_values);
  uint32_t number;
  for (uint32_t i = 0; i < values.count; i++) {
    const ect_operand o = read_value(r, i, ec_fb_vec_table(values, i));
    EC_BACKEND_TRY(ect_add_operand(r->g, &o, &number));
  }
  for (uint32_t i = 0; i < values.count; i++) {
    const ect_operand *o = &r->g->operands[i];
    if (o->kind == ECT_TENSOR_LIST && o->source)
      EC_BACKEND_TRY(read_items(r, i, ec_fb_vector(o->source, ECV_ValueList_items)));
  }
  return EC_BACKEND_OK;
}

/* ---- calls ----------------------------------------------------------------------------------- */

/* Appends links to values. */
static uint32_t read_ids(reader *r, ec_fb_vec ids) {
  for (uint32_t i = 0; i < ids.count; i++) {
    uint32_t operand;
    EC_BACKEND_TRY(find_operand(r, ec_fb_vec_i32(ids, i), &operand));
    EC_BACKEND_TRY(ect_add_link(r->g, (ect_text){0}, operand));
  }
  return EC_BACKEND_OK;
}

/* The last value of a call is its result. */
static uint32_t read_calls(reader *r) {
  const ec_fb_vec chain = ec_fb_vector(r->graph, ECV_VkGraph_chain);
  for (uint32_t i = 0; i < chain.count; i++) {
    const ec_fb_table call = ec_fb_vec_table(chain, i);
    const ec_fb_vec args = ec_fb_vector(call, ECV_OperatorCall_args);
    const char *name = ec_fb_string(call, ECV_OperatorCall_name);
    if (!name || !args.count)
      return EC_BACKEND_FAIL(&r->g->c, EC_BACKEND_INVALID_PROGRAM, "call %u has no %s", (unsigned)i,
                             name ? "values" : "name");
    const ect_node n = {.op = ect_text_of(name), .shown = name,
                        .number = ec_fb_u32(call, ECV_OperatorCall_node_id),
                        .first = (uint32_t)r->g->link_count, .input_count = args.count - 1,
                        .output_count = 1};
    EC_BACKEND_TRY(read_ids(r, args));
    EC_BACKEND_TRY(ect_add_node(r->g, 0, &n));
  }
  return EC_BACKEND_OK;
}

/* Storage and layout on the device, which do not change a value. */
void ecv_note_storage(const ect_graph *g, const ect_operand *o, ect_note *note) {
  static const char *const storages[] = {"buffer", "3D texture", "2D texture"};
  static const char *const layouts[] = {"width-packed",   "height-packed",  "channels-packed",
                                        "int8 4W4C",      "int8 4H4W",      "int8 4W",
                                        "int8 4C",        "",               "int8 4C1W",
                                        "int8 convolution"};
  const uint64_t storage = ec_fb_get(o->source, ECV_VkTensor_storage_type, 1, 255);
  const uint64_t layout = ec_fb_get(o->source, ECV_VkTensor_memory_layout, 1, 255);
  (void)g;
  if (storage < sizeof storages / sizeof *storages) ect_note_add(note, "%s", storages[storage]);
  if (layout < sizeof layouts / sizeof *layouts) ect_note_add(note, "%s", layouts[layout]);
}

uint32_t ecv_read_payload(ect_graph *g, const ec_backend_init *what) {
  reader r = {.g = g, .missing = ECT_ABSENT};
  uint32_t number;
  EC_BACKEND_TRY(open_payload(&r, what));
  EC_BACKEND_TRY(read_constants(&r));
  EC_BACKEND_TRY(read_values(&r));
  const ec_fb_vec inputs = ec_fb_vector(r.graph, ECV_VkGraph_input_ids);
  const ec_fb_vec outputs = ec_fb_vector(r.graph, ECV_VkGraph_output_ids);
  EC_BACKEND_TRY(ect_add_block(g, &(ect_block){.input_count = inputs.count,
                                               .first_output = inputs.count,
                                               .output_count = outputs.count},
                               &number));
  EC_BACKEND_TRY(read_ids(&r, inputs));
  EC_BACKEND_TRY(read_ids(&r, outputs));
  EC_BACKEND_TRY(read_calls(&r));
  ecv_find_state(g);
  return EC_BACKEND_OK;
}
