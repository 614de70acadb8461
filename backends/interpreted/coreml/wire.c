/* The wire format of protobuf: each length is checked against the message around it. */
#include "wire.h"

#include <string.h>

bool ecm_wire_varint(ect_text *rest, uint64_t *out) {
  *out = 0;
  for (unsigned shift = 0, i = 0; i < 10 && i < rest->size; i++, shift += 7) {
    const uint8_t byte = rest->data[i];
    *out |= (uint64_t)(byte & 0x7f) << shift;
    if (byte & 0x80) continue;
    rest->data += i + 1;
    rest->size -= i + 1;
    return true;
  }
  return false;
}

static bool take_bytes(ect_text *rest, uint64_t size, ect_text *out) {
  if (size > rest->size) return false;
  *out = (ect_text){rest->data, (size_t)size};
  rest->data += size;
  rest->size -= (size_t)size;
  return true;
}

bool ecm_wire_next(ect_text *rest, ecm_field *out) {
  ect_text at = *rest, fixed;
  uint64_t tag, size;
  *out = (ecm_field){0};
  if (!at.size || !ecm_wire_varint(&at, &tag) || tag >> 3 == 0 || tag >> 32) return false;
  out->number = (uint32_t)(tag >> 3);
  out->wire = tag & 7;
  switch (out->wire) {
  case ECM_VARINT:
    if (!ecm_wire_varint(&at, &out->value)) return false;
    break;
  case ECM_BYTES:
    if (!ecm_wire_varint(&at, &size) || !take_bytes(&at, size, &out->bytes)) return false;
    break;
  case ECM_FIXED32:
  case ECM_FIXED64:
    size = out->wire == ECM_FIXED32 ? 4 : 8;
    if (!take_bytes(&at, size, &fixed)) return false;
    memcpy(&out->value, fixed.data, fixed.size);
    break;
  default: return false;
  }
  *rest = at;
  return true;
}

bool ecm_wire_find(ect_text message, uint32_t number, ecm_field *out) {
  ecm_field field;
  bool has_field = false;
  while (ecm_wire_next(&message, &field))
    if (field.number == number) {
      *out = field;
      has_field = true;
    }
  return has_field;
}

bool ecm_wire_entry(ect_text message, uint32_t map, const char *key, ect_text *out) {
  ecm_field field, name, value;
  while (ecm_wire_next(&message, &field)) {
    if (field.number != map || field.wire != ECM_BYTES) continue;
    if (!ecm_wire_find(field.bytes, 1, &name) || !ect_text_is(name.bytes, key)) continue;
    if (!ecm_wire_find(field.bytes, 2, &value) || value.wire != ECM_BYTES) return false;
    *out = value.bytes;
    return true;
  }
  return false;
}

bool ecm_wire_check(ect_text message) {
  ecm_field field;
  while (ecm_wire_next(&message, &field)) continue;
  return message.size == 0;
}
