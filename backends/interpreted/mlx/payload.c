/* The header and the schema of a payload. */
#include "payload.h"

#include <string.h>

/* Sizes of fields. */
enum { TID = 4, VID = 4, I8 = 1, U8 = 1, BOOL = 1, I32 = 4, U32 = 4, F32 = 4, I64 = 8, U64 = 8,
       F64 = 8 };

/* ---- schemas --------------------------------------------------------------------------------- */

#include "format/schema.h"

/* Types beyond these are not followed: the reader refuses them. */
enum {
  NONE,
#define EMX_NODE(table) NODE_##table,
#include "union.def"
#undef EMX_NODE
  NODE_TYPES
};

static const ec_fb_schema *const union_OpNode[NODE_TYPES];

#include "schema.def"

static const ec_fb_schema *const union_OpNode[NODE_TYPES] = {
#define EMX_NODE(table) [NODE_##table] = &schema_##table,
#include "union.def"
#undef EMX_NODE
};

#undef EC_FB_TABLE_BEGIN
#undef EC_FB_FIELD
#undef EC_FB_TABLE_END
#define EC_FB_TABLE_BEGIN(table) static const uint8_t kinds_##table[] __attribute__((unused)) = {
#define EC_FB_FIELD(table, id, name, kind, size) EMX_##kind##_##size,
#define EC_FB_TABLE_END(table) EMX_END};
enum {
  EMX_UNION_OpNode = EMX_OTHER, EMX_TABLES_Instruction = EMX_OTHER,
  EMX_TABLES_InstructionChain = EMX_OTHER, EMX_TABLES_ShapeDim = EMX_OTHER,
  EMX_TABLES_SlotVariant = EMX_OTHER, EMX_TABLE_SlotVariant = EMX_OTHER,
  EMX_TABLES_NamedSlot = EMX_OTHER, EMX_TABLES_TensorMeta = EMX_OTHER
};
#include "schema.def"

static const emx_node_type node_types[NODE_TYPES] = {
#define EMX_NODE(table) [NODE_##table] = {&schema_##table, kinds_##table},
#include "union.def"
#undef EMX_NODE
};

const ec_fb_schema *emx_payload_schema(void) { return &schema_MLXGraph; }

const emx_node_type *emx_find_node_type(uint8_t number) {
  return number && number < NODE_TYPES ? &node_types[number] : NULL;
}

/* ---- header ---------------------------------------------------------------------------------- */

uint32_t emx_read_header(const ec_backend_call *c, const uint8_t *bytes, size_t size,
                         const uint8_t **out, size_t *out_size) {
  enum { HEADER_BYTES = 24, MAGIC_AT = 4, OFFSET_AT = 8, SIZE_AT = 16, MIN_BYTES = 12 };
  uint64_t offset, data_size;
  if (size < HEADER_BYTES + MIN_BYTES || memcmp(bytes, "\0\0\0\0MLX0", OFFSET_AT) != 0)
    return EC_BACKEND_FAIL(c, EC_BACKEND_INVALID_PROGRAM,
                           "payload: %zu bytes without the header of an MLX graph, expected four "
                           "zeros and 'MLX0'",
                           size);
  memcpy(&offset, bytes + OFFSET_AT, sizeof offset);
  memcpy(&data_size, bytes + SIZE_AT, sizeof data_size);
  if (offset < HEADER_BYTES + MIN_BYTES || offset > size || data_size > size - offset)
    return EC_BACKEND_FAIL(c, EC_BACKEND_INVALID_PROGRAM,
                           "payload: %llu bytes of data at %llu, beyond its end at %zu",
                           (unsigned long long)data_size, (unsigned long long)offset, size);
  if (data_size)
    return EC_BACKEND_FAIL(c, EC_BACKEND_NOT_SUPPORTED,
                           "payload: %llu bytes of constants inside, expected none: ExecuTorch "
                           "1.5.1 stores them as named data",
                           (unsigned long long)data_size);
  *out = bytes + HEADER_BYTES;
  *out_size = (size_t)offset - HEADER_BYTES;
  return EC_BACKEND_OK;
}
