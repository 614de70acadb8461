/* The wire format of protobuf: each length is checked against the message around it. */
#include "wire.h"

#include <string.h>

bool ecm_wire_varint(ecm_bytes *rest, uint64_t *out) {
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

static bool take_bytes(ecm_bytes *rest, uint64_t size, ecm_bytes *out) {
  if (size > rest->size) return false;
  *out = (ecm_bytes){rest->data, (size_t)size};
  rest->data += size;
  rest->size -= (size_t)size;
  return true;
}

bool ecm_wire_next(ecm_bytes *rest, ecm_field *out) {
  ecm_bytes at = *rest, fixed;
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

bool ecm_wire_find(ecm_bytes message, uint32_t number, ecm_field *out) {
  ecm_field field;
  bool has_field = false;
  while (ecm_wire_next(&message, &field))
    if (field.number == number) {
      *out = field;
      has_field = true;
    }
  return has_field;
}

bool ecm_bytes_equal(ecm_bytes bytes, const char *text) {
  const size_t size = strlen(text);
  return bytes.size == size && memcmp(bytes.data, text, size) == 0;
}

bool ecm_wire_entry(ecm_bytes message, uint32_t map, const char *key, ecm_bytes *out) {
  ecm_field field, name, value;
  while (ecm_wire_next(&message, &field)) {
    if (field.number != map || field.wire != ECM_BYTES) continue;
    if (!ecm_wire_find(field.bytes, 1, &name) || !ecm_bytes_equal(name.bytes, key)) continue;
    if (!ecm_wire_find(field.bytes, 2, &value) || value.wire != ECM_BYTES) return false;
    *out = value.bytes;
    return true;
  }
  return false;
}

bool ecm_wire_check(ecm_bytes message) {
  ecm_field field;
  while (ecm_wire_next(&message, &field)) continue;
  return message.size == 0;
}
