/* Verification of a payload's structure. */
#include "payload.h"

#include <inttypes.h>
#include <string.h>

#include "core/checked.h"
#include "fields.h"
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

/* The header: four zero bytes, "VH00", u16 length, then the numbers below. */
enum {
  MAGIC_AT = 4,
  LENGTH_AT = 8,
  GRAPH_OFFSET_AT = 10,
  GRAPH_SIZE_AT = 14,
  BYTES_OFFSET_AT = 18,
  BYTES_SIZE_AT = 22,
  HEADER_BYTES = 30,
  SMALLEST_GRAPH = 12
};

static uint32_t read_header(const ec_backend_call *c, const uint8_t *data, size_t size,
                            const uint8_t **graph, size_t *graph_size, ecv_payload *out) {
  if (size < HEADER_BYTES || memcmp(data + MAGIC_AT, "VH00", 4) != 0)
    return EC_BACKEND_FAIL(
        c, EC_BACKEND_INVALID_PROGRAM,
        "payload: %zu bytes without the header of a Vulkan graph, expected 'VH00'", size);
  const unsigned length = data[LENGTH_AT] | (unsigned)data[LENGTH_AT + 1] << 8;
  const uint32_t at = ec_read_u32(data + GRAPH_OFFSET_AT);
  const uint32_t graph_bytes = ec_read_u32(data + GRAPH_SIZE_AT);
  const uint32_t bytes_at = ec_read_u32(data + BYTES_OFFSET_AT);
  uint64_t bytes = ec_read_u64(data + BYTES_SIZE_AT);
  if (length < HEADER_BYTES || at < length || graph_bytes < SMALLEST_GRAPH ||
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

uint32_t ecv_payload_open(const ec_backend_call *c, const void *data, size_t size,
                          ecv_payload *out) {
  const uint8_t *graph = NULL;
  size_t graph_size = 0;
  ec_error err = {0};
  *out = (ecv_payload){0};
  EC_BACKEND_TRY(read_header(c, data, size, &graph, &graph_size, out));
  if (memcmp(graph + 4, "VK00", 4) != 0)
    return EC_BACKEND_FAIL(c, EC_BACKEND_INCOMPATIBLE,
                           "payload: the graph has identifier '%.4s', expected 'VK00'",
                           (const char *)graph + 4);
  const ec_status status = ec_fb_verify(graph, graph_size, &schema_VkGraph, "payload", &err);
  if (status != EC_OK) return EC_BACKEND_FAIL(c, (uint32_t)status, "%s", err.message);
  out->graph = ec_fb_root(graph);
  out->chain = ec_fb_vector(out->graph, ECV_VkGraph_chain);
  out->values = ec_fb_vector(out->graph, ECV_VkGraph_values);
  out->inputs = ec_fb_vector(out->graph, ECV_VkGraph_input_ids);
  out->outputs = ec_fb_vector(out->graph, ECV_VkGraph_output_ids);
  out->constants = ec_fb_vector(out->graph, ECV_VkGraph_constants);
  return EC_BACKEND_OK;
}

uint32_t ecv_payload_constant(const ec_backend_call *c, const ecv_payload *p, uint32_t id,
                              const void **data, size_t *size) {
  if (id >= p->constants.count)
    return EC_BACKEND_FAIL(c, EC_BACKEND_INVALID_PROGRAM, "constant %u, the graph has %u of them",
                           (unsigned)id, (unsigned)p->constants.count);
  const ec_fb_table row = ec_fb_vec_table(p->constants, id);
  const uint64_t offset = ec_fb_u64(row, ECV_VkBytes_offset);
  const uint64_t length = ec_fb_u64(row, ECV_VkBytes_length);
  const char *key = ec_fb_string(row, ECV_VkBytes_named_key);
  if (offset != UINT64_MAX) {
    if (!ec_in_range(offset, length, p->bytes_size))
      return EC_BACKEND_FAIL(c, EC_BACKEND_INVALID_PROGRAM,
                             "constant %u of %" PRIu64 " bytes at %" PRIu64
                             " does not fit into %zu bytes",
                             (unsigned)id, length, offset, p->bytes_size);
    *data = p->bytes + offset;
    *size = (size_t)length;
    return EC_BACKEND_OK;
  }
  const uint32_t status = key ? c->host->named_data(c->call, key, data, size)
                              : (uint32_t)EC_BACKEND_NOT_FOUND;
  if (status == EC_BACKEND_NOT_FOUND)
    return EC_BACKEND_FAIL(
        c, EC_BACKEND_NOT_FOUND,
        "constant %u is named data '%.80s', which neither the program nor a data file "
        "has",
        (unsigned)id, key ? key : "(no name)");
  return status;
}

ec_fb_table ecv_value_table(const ecv_payload *p, int64_t id) {
  if (id < 0 || (uint64_t)id >= p->values.count) return NULL;
  return ec_fb_child(ec_fb_vec_table(p->values, (uint32_t)id), ECV_VkValue_value);
}

uint8_t ecv_value_type(const ecv_payload *p, int64_t id) {
  if (id < 0 || (uint64_t)id >= p->values.count) return 0;
  const ec_fb_table row = ec_fb_vec_table(p->values, (uint32_t)id);
  const uint8_t type = ec_fb_u8(row, ECV_VkValue_value_type);
  return type < ECV_TYPES && ec_fb_child(row, ECV_VkValue_value) ? type : 0;
}

int32_t ecv_scalar_type(uint8_t datatype) {
  static const int8_t types[] = {EC_DTYPE_BOOL,    EC_DTYPE_UINT8,   EC_DTYPE_INT8,
                                 EC_DTYPE_INT32,   EC_DTYPE_FLOAT16, EC_DTYPE_FLOAT32,
                                 EC_DTYPE_FLOAT64, EC_DTYPE_INT64};
  return datatype < sizeof types ? types[datatype] : -1;
}
