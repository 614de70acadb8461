/* The FlatBuffers writer of the tests. */
#include "testing/fb_build.h"

#include <string.h>

size_t ec_build_put(ec_build *b, const void *bytes, size_t size, size_t align) {
  const size_t at = (b->size + align - 1) / align * align;
  b->full = b->full || size > EC_BUILD_BYTES || at > EC_BUILD_BYTES - size;
  if (b->full) return 0;
  memset(b->data + b->size, 0, at + size - b->size);
  if (bytes) memcpy(b->data + at, bytes, size);
  b->size = at + size;
  return at;
}

size_t ec_build_vector(ec_build *b, const void *items, uint32_t count, size_t width) {
  if (width == 8) ec_build_put(b, NULL, 4, 8); /* items are aligned, not their count */
  const size_t at = ec_build_put(b, &count, sizeof count, 4);
  ec_build_put(b, items, count * width, 1);
  return at;
}

size_t ec_build_string(ec_build *b, const void *text, uint32_t size) {
  const size_t at = ec_build_vector(b, text, size, 1);
  ec_build_put(b, NULL, 1, 1);
  return at;
}

void ec_build_poke(ec_build *b, size_t at, uint64_t value, size_t size) {
  if (!b->full) memcpy(b->data + at, &value, size);
}

void ec_build_link(ec_build *b, size_t slot, size_t target) {
  ec_build_poke(b, slot, target - slot, 4);
}
