/* A small FlatBuffers writer for tests. It writes front to back, allocates every field of a table,
 * and patches links. The capacity is fixed. It asserts nothing: tests check the result. */
#ifndef EC_TESTING_FB_BUILD_H
#define EC_TESTING_FB_BUILD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { EC_BUILD_BYTES = 1 << 14 };

typedef struct ec_build {
  uint8_t data[EC_BUILD_BYTES];
  size_t size;
  bool full;
} ec_build;

/* Appends bytes, aligned to `align`. Returns their offset. */
size_t ec_build_put(ec_build *b, const void *bytes, size_t size, size_t align);
size_t ec_build_vector(ec_build *b, const void *items, uint32_t count, size_t width);
size_t ec_build_string(ec_build *b, const void *text, uint32_t size);

/* Overwrites an integer. */
void ec_build_poke(ec_build *b, size_t at, uint64_t value, size_t size);

/* Points the offset at `slot` to `target` after it. */
void ec_build_link(ec_build *b, size_t slot, size_t target);

#endif
