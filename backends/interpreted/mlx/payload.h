/* The bytes of a payload: a header, and a FlatBuffer MLXGraph. */
#ifndef EMX_PAYLOAD_H
#define EMX_PAYLOAD_H

#include "../graph.h"
#include "format/fb.h"

/* Kinds of the fields of a node: those of the rows of schema.def. */
typedef enum emx_field_kind {
  EMX_END,
  EMX_SCALAR_TID,
  EMX_SCALAR_VID,
  EMX_SCALAR_I8,
  EMX_SCALAR_I32,
  EMX_SCALAR_U8,
  EMX_SCALAR_U32,
  EMX_SCALAR_I64,
  EMX_SCALAR_U64,
  EMX_SCALAR_F32,
  EMX_SCALAR_F64,
  EMX_SCALAR_BOOL,
  EMX_VECTOR_TID,
  EMX_VECTOR_I32,
  EMX_VECTOR_I8,
  EMX_VECTOR_U8,
  EMX_STRING_0,
  EMX_STRINGS_0,
  EMX_TABLE_IntOrVid,
  EMX_TABLE_FloatOrVid,
  EMX_TABLE_VidOrTid,
  EMX_TABLE_IntOrVidOrTid,
  EMX_TABLES_IntOrVid,
  EMX_OTHER /* of tables that are no nodes */
} emx_field_kind;

/* A type of nodes; kinds are in the order of the schema's fields. */
typedef struct emx_node_type {
  const ec_fb_schema *schema;
  const uint8_t *kinds;
} emx_node_type;

/* Returns NULL for a number that the union does not have. */
const emx_node_type *emx_find_node_type(uint8_t number);
/* The schema of the FlatBuffer. */
const ec_fb_schema *emx_payload_schema(void);
/* Checks the header. Sets the FlatBuffer, which begins behind it. */
uint32_t emx_read_header(const ec_backend_call *c, const uint8_t *bytes, size_t size,
                         const uint8_t **out, size_t *out_size);

#endif
