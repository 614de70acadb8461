/* Fields of a protobuf message. */
#ifndef ECM_WIRE_H
#define ECM_WIRE_H

#include "../names.h"

typedef enum ecm_wire { ECM_VARINT = 0, ECM_FIXED64 = 1, ECM_BYTES = 2, ECM_FIXED32 = 5 } ecm_wire;

typedef struct ecm_field {
  uint32_t number;
  uint8_t wire;
  uint64_t value;  /* of the other types */
  ect_text bytes; /* of ECM_BYTES */
} ecm_field;

/* Reads the next field of `rest` and removes it. Returns false at the end, and at a fault, which
 * leaves bytes in `rest`. */
bool ecm_wire_next(ect_text *rest, ecm_field *out);
bool ecm_wire_varint(ect_text *rest, uint64_t *out);
/* Finds the last field with a number; with wrong bytes in front of it, none. */
bool ecm_wire_find(ect_text message, uint32_t number, ecm_field *out);
/* Finds the value of a key in a map<string, message>. */
bool ecm_wire_entry(ect_text message, uint32_t map, const char *key, ect_text *out);
/* True if all fields of a message can be read. */
bool ecm_wire_check(ect_text message);

#endif
