/* The FlatBuffer writer of translators. */
#include "bytes.h"

#include <string.h>

enum { MIN_CAPACITY = 4096, FIELDS = 16, OFFSET_BYTES = 4 };

void *ect_grow(const ec_host *host, void *items, size_t *capacity, size_t count, size_t width) {
  if (count < *capacity) return items;
  const size_t wanted = *capacity ? 2 * *capacity : 16;
  if (wanted > SIZE_MAX / 2 / width) return NULL;
  void *moved = host->alloc(wanted * width);
  if (!moved) return NULL;
  if (count) memcpy(moved, items, count * width);
  host->free(items);
  *capacity = wanted;
  return moved;
}

/* Makes room for `size` more bytes after `at`. */
static bool reserve(ect_bytes *b, size_t at, size_t size) {
  if (b->failed || at > SIZE_MAX / 4 || size > SIZE_MAX / 4) b->failed = true;
  if (b->failed || at + size <= b->capacity) return !b->failed;
  const size_t doubled = 2 * b->capacity;
  const size_t least = at + size < MIN_CAPACITY ? MIN_CAPACITY : at + size;
  const size_t capacity = doubled > least ? doubled : least;
  uint8_t *moved = b->host->alloc(capacity);
  b->failed = !moved;
  if (!moved) return false;
  if (b->size) memcpy(moved, b->data, b->size);
  b->host->free(b->data);
  b->data = moved;
  b->capacity = capacity;
  return true;
}

size_t ect_put(ect_bytes *b, const void *bytes, size_t size, size_t align) {
  const size_t at = (b->size + align - 1) / align * align;
  if (!reserve(b, at, size)) return 0;
  memset(b->data + b->size, 0, at - b->size);
  if (bytes && size) memcpy(b->data + at, bytes, size);
  else memset(b->data + at, 0, size);
  b->size = at + size;
  return at;
}

void ect_poke(ect_bytes *b, size_t at, uint64_t value, size_t size) {
  if (!b->failed) memcpy(b->data + at, &value, size);
}

void ect_link(ect_bytes *b, size_t slot, size_t target) {
  if (target - slot > INT32_MAX) b->failed = true;
  ect_poke(b, slot, target - slot, OFFSET_BYTES);
}

/* Places the fields after the offset to the vtable. Returns the table's size. */
static size_t place_fields(ect_field *fields, size_t count) {
  size_t used = OFFSET_BYTES;
  for (size_t i = 0; i < count; i++) {
    fields[i].at = (used + fields[i].size - 1) / fields[i].size * fields[i].size;
    used = fields[i].at + fields[i].size;
  }
  return used;
}

size_t ect_table(ect_bytes *b, ect_field *fields, size_t count) {
  uint16_t vtable[2 + FIELDS] = {0};
  unsigned ids = 0;
  const size_t used = place_fields(fields, count);
  for (size_t i = 0; i < count; i++) {
    vtable[2 + fields[i].id] = (uint16_t)fields[i].at;
    if (fields[i].id >= ids) ids = fields[i].id + 1;
  }
  vtable[0] = (uint16_t)((2 + ids) * sizeof vtable[0]);
  vtable[1] = (uint16_t)used;
  const size_t head = ect_put(b, vtable, vtable[0], sizeof vtable[0]);
  const size_t at = ect_put(b, NULL, used, 8);
  ect_poke(b, at, at - head, OFFSET_BYTES);
  for (size_t i = 0; i < count; i++) {
    fields[i].at += at;
    ect_poke(b, fields[i].at, fields[i].value, fields[i].size);
  }
  return at;
}

size_t ect_vector(ect_bytes *b, const void *items, size_t count, size_t width) {
  const uint32_t length = (uint32_t)count;
  if (count > INT32_MAX / width) b->failed = true;
  if (width == 8 && b->size % 8 <= OFFSET_BYTES) /* items are aligned, not their count */
    ect_put(b, NULL, OFFSET_BYTES - b->size % 8, 1);
  else if (width == 8)
    ect_put(b, NULL, 8 + OFFSET_BYTES - b->size % 8, 1);
  const size_t at = ect_put(b, &length, sizeof length, OFFSET_BYTES);
  ect_put(b, items, count * width, 1);
  return at;
}

size_t ect_string(ect_bytes *b, const char *text, size_t size) {
  const size_t at = ect_vector(b, text, size, 1);
  ect_put(b, NULL, 1, 1);
  return at;
}
