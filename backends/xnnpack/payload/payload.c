/* The delegate's bytes: a header, a FlatBuffer and constants after it; or, in old files, only the
 * FlatBuffer. */
#include "payload/payload.h"

#include <string.h>

#include "core/checked.h"
/* Last, because it redefines the macros of tables.def. */
#include "format/schema.h"

static const ec_fb_schema *const union_Quantization[ECX_QUANT_PER_GROUP + 1];
static const ec_fb_schema *const union_Values[ECX_VALUE_QUANTIZED + 1];
static const ec_fb_schema *const union_Nodes[ECX_KINDS];

#define ECX_FIELD_F32(table, id, name) EC_FB_FIELD(table, id, name, SCALAR, 4)
#define ECX_FIELD_RANK(table, id, name) EC_FB_FIELD(table, id, name, SCALAR, 4)
#include "payload/tables.def"
#undef ECX_FIELD_F32
#undef ECX_FIELD_RANK

static const ec_fb_schema *const union_Quantization[ECX_QUANT_PER_GROUP + 1] = {
  [ECX_QUANT_PER_CHANNEL] = &schema_PerChannel,
  [ECX_QUANT_PER_TENSOR] = &schema_PerTensor,
  [ECX_QUANT_PER_TOKEN] = &schema_PerToken,
  [ECX_QUANT_PER_GROUP] = &schema_PerGroup,
};
static const ec_fb_schema *const union_Values[ECX_VALUE_QUANTIZED + 1] = {
  [ECX_VALUE_PLAIN] = &schema_Tensor,
  [ECX_VALUE_QUANTIZED] = &schema_QuantizedTensor,
};
static const ec_fb_schema *const union_Nodes[ECX_KINDS] = {
#define ECX_NODE(number, name, table, ...) [number] = &schema_##table,
#include "nodes/nodes.def"
#undef ECX_NODE
};

const ec_fb_schema *ecx_payload_schema(void) { return &schema_Graph; }

const ec_fb_schema *ecx_node_schema(uint8_t type) {
  return type < ECX_KINDS ? union_Nodes[type] : NULL;
}

/* The header: four zero bytes, "XH00", u16 length, then the numbers below. */
enum {
  NEWEST_VERSION = 0, /* of the schema */
  MAGIC_AT = 4,
  FLATBUFFER_OFFSET_AT = 10,
  FLATBUFFER_SIZE_AT = 14,
  CONSTANTS_OFFSET_AT = 18,
  CONSTANTS_SIZE_AT = 22,
  HEADER_BYTES = 30,
  IDENTIFIER_AT = 4,
  SMALLEST_FLATBUFFER = 8
};

typedef struct flatbuffer {
  const uint8_t *data;
  size_t size;
} flatbuffer;

static uint32_t read_header(const ecx_call *c, const uint8_t *data, size_t size, flatbuffer *body,
                            ecx_payload *out) {
  uint32_t at = ec_read_u32(data + FLATBUFFER_OFFSET_AT);
  uint32_t bytes = ec_read_u32(data + FLATBUFFER_SIZE_AT);
  uint32_t constants = ec_read_u32(data + CONSTANTS_OFFSET_AT);
  uint64_t constants_size = ec_read_u64(data + CONSTANTS_SIZE_AT);
  if (bytes < SMALLEST_FLATBUFFER || !ec_in_range(at, bytes, size) || at < HEADER_BYTES)
    return ecx_fail(c, EC_BACKEND_INVALID_PROGRAM,
                    "payload: the header states a FlatBuffer of %u bytes at offset %u in a "
                    "payload of %zu bytes",
                    (unsigned)bytes, (unsigned)at, size);
  if (!ec_in_range(constants, constants_size, size) || constants < at || constants - at < bytes)
    return ecx_fail(c, EC_BACKEND_INVALID_PROGRAM,
                    "payload: the header states %llu bytes of constants at offset %u in a "
                    "payload of %zu bytes whose FlatBuffer ends at %llu",
                    (unsigned long long)constants_size, (unsigned)constants, size,
                    (unsigned long long)at + bytes);
  *body = (flatbuffer){data + at, bytes};
  out->constants = data + constants;
  out->constants_size = (size_t)constants_size;
  return EC_BACKEND_OK;
}

static uint32_t check_identifier(const ecx_call *c, const flatbuffer *p) {
  const char *identifier = (const char *)p->data + IDENTIFIER_AT;
  if (p->size >= SMALLEST_FLATBUFFER &&
      (memcmp(identifier, "XN00", 4) == 0 || memcmp(identifier, "XN01", 4) == 0))
    return EC_BACKEND_OK;
  if (p->size >= SMALLEST_FLATBUFFER && memcmp(identifier, "XN", 2) == 0)
    return ecx_fail(c, EC_BACKEND_INCOMPATIBLE,
                    "payload: format '%.4s', this backend reads XN00 and XN01", identifier);
  return ecx_fail(c, EC_BACKEND_INCOMPATIBLE,
                  "payload: not an XNNPACK delegate: found neither the header 'XH00' nor the "
                  "identifier XN00 or XN01 of a FlatBuffer (%zu bytes)",
                  p->size);
}

uint32_t ecx_payload_open(const ecx_call *c, const void *data, size_t size, ecx_payload *out) {
  flatbuffer body = {data, size};
  *out = (ecx_payload){0};
  if (size >= MAGIC_AT + 4 && memcmp((const char *)data + MAGIC_AT, "XH00", 4) == 0) {
    if (size < HEADER_BYTES)
      return ecx_fail(c, EC_BACKEND_INVALID_ARGUMENT,
                      "payload: %zu bytes, its header alone has %d: it was cut off", size,
                      HEADER_BYTES);
    ECX_TRY(read_header(c, data, size, &body, out));
  }
  ECX_TRY(check_identifier(c, &body));
  ec_error err;
  ec_error_clear(&err);
  if (ec_fb_verify(body.data, body.size, &schema_Graph, "payload", &err))
    return ecx_fail(c, EC_BACKEND_INVALID_PROGRAM, "%s", err.message);
  out->root = ec_fb_root(body.data);
  if (ec_fb_check_text_version(out->root, ECX_Graph_version, NEWEST_VERSION,
                               EC_DELEGATE_INCOMPATIBLE, &err))
    return ecx_fail(c, EC_BACKEND_INCOMPATIBLE, "payload: %s", err.message);
  return EC_BACKEND_OK;
}
