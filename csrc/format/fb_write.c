/* Writer of FlatBuffers. */
#include "format/fb_write.h"

#include <string.h>

enum { MIN_CAPACITY = 4096, FIELDS = 32, OFFSET_BYTES = 4 };

/* Makes room for `size` more bytes after `at`. */
static bool reserve(ec_fb_writer *w, size_t at, size_t size) {
  if (at > SIZE_MAX / 4 || size > SIZE_MAX / 4) w->failed = true;
  if (w->failed || at + size <= w->capacity) return !w->failed;
  const size_t doubled = 2 * w->capacity;
  const size_t least = at + size < MIN_CAPACITY ? MIN_CAPACITY : at + size;
  const size_t capacity = doubled > least ? doubled : least;
  uint8_t *moved = w->alloc ? w->alloc(capacity) : NULL;
  w->failed = !moved;
  if (!moved) return false;
  if (w->size) memcpy(moved, w->data, w->size);
  w->free(w->data);
  w->data = moved;
  w->capacity = capacity;
  return true;
}

size_t ec_fb_put(ec_fb_writer *w, const void *bytes, size_t size, size_t align) {
  const size_t at = (w->size + align - 1) / align * align;
  if (!reserve(w, at, size)) return 0;
  memset(w->data + w->size, 0, at - w->size);
  if (bytes && size) memcpy(w->data + at, bytes, size);
  else memset(w->data + at, 0, size);
  w->size = at + size;
  return at;
}

void ec_fb_poke(ec_fb_writer *w, size_t at, uint64_t value, size_t size) {
  if (!w->failed) memcpy(w->data + at, &value, size);
}

void ec_fb_link(ec_fb_writer *w, size_t slot, size_t target) {
  if (target - slot > INT32_MAX) w->failed = true;
  ec_fb_poke(w, slot, target - slot, OFFSET_BYTES);
}

/* Places the fields after the offset to the vtable. Returns the table's size. */
static size_t place_fields(ec_fb_slot *fields, size_t count) {
  size_t used = OFFSET_BYTES;
  for (size_t i = 0; i < count; i++) {
    fields[i].at = (used + fields[i].size - 1) / fields[i].size * fields[i].size;
    used = fields[i].at + fields[i].size;
  }
  return used;
}

size_t ec_fb_put_table(ec_fb_writer *w, ec_fb_slot *fields, size_t count) {
  uint16_t vtable[2 + FIELDS] = {0};
  unsigned ids = 0;
  const size_t used = place_fields(fields, count);
  for (size_t i = 0; i < count; i++) {
    vtable[2 + fields[i].id] = (uint16_t)fields[i].at;
    if (fields[i].id >= ids) ids = fields[i].id + 1;
  }
  vtable[0] = (uint16_t)((2 + ids) * sizeof vtable[0]);
  vtable[1] = (uint16_t)used;
  const size_t head = ec_fb_put(w, vtable, vtable[0], sizeof vtable[0]);
  const size_t at = ec_fb_put(w, NULL, used, 8);
  ec_fb_poke(w, at, at - head, OFFSET_BYTES);
  for (size_t i = 0; i < count; i++) {
    fields[i].at += at;
    ec_fb_poke(w, fields[i].at, fields[i].value, fields[i].size);
  }
  return at;
}

size_t ec_fb_put_vector(ec_fb_writer *w, const void *items, size_t count, size_t width) {
  const uint32_t length = (uint32_t)count;
  if (count > INT32_MAX / width) w->failed = true;
  if (width == 8 && w->size % 8 <= OFFSET_BYTES) /* items are aligned, not their count */
    ec_fb_put(w, NULL, OFFSET_BYTES - w->size % 8, 1);
  else if (width == 8) ec_fb_put(w, NULL, 8 + OFFSET_BYTES - w->size % 8, 1);
  const size_t at = ec_fb_put(w, &length, sizeof length, OFFSET_BYTES);
  ec_fb_put(w, items, count * width, 1);
  return at;
}

size_t ec_fb_put_string(ec_fb_writer *w, const void *text, size_t size) {
  const size_t at = ec_fb_put_vector(w, text, size, 1);
  ec_fb_put(w, NULL, 1, 1);
  return at;
}
