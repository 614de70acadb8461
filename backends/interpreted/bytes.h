/* Bytes of a FlatBuffer under construction, and arrays that grow.
 *
 * A FlatBuffer is written front to back: a table first, its children after it, linked as they are
 * appended. The first allocation that fails sets `failed`; later calls do nothing. */
#ifndef ECT_BYTES_H
#define ECT_BYTES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "executorch_c/backend.h"

typedef struct ect_bytes {
  const ec_host *host;
  uint8_t *data;
  size_t size, capacity;
  bool failed;
} ect_bytes;

/* A field of a table. An offset has 4 bytes and the value 0 until it is linked. */
typedef struct ect_field {
  unsigned id, size;
  uint64_t value;
  size_t at; /* set by ect_table */
} ect_field;

/* Appends bytes (NULL: zeros), aligned to `align`. Returns their position. */
size_t ect_put(ect_bytes *b, const void *bytes, size_t size, size_t align);
/* Appends a table; fields in any order. Returns its position. */
size_t ect_table(ect_bytes *b, ect_field *fields, size_t count);
/* Appends a vector; `items` NULL: zeros. Its items begin 4 bytes after the position. */
size_t ect_vector(ect_bytes *b, const void *items, size_t count, size_t width);
size_t ect_string(ect_bytes *b, const char *text, size_t size);
void ect_poke(ect_bytes *b, size_t at, uint64_t value, size_t size);
/* Points the offset at `slot` to `target` after it. */
void ect_link(ect_bytes *b, size_t slot, size_t target);

/* Returns `items` with room for one more item of `width` bytes, moved if it was full; NULL without
 * memory, and then `items` is unchanged. */
void *ect_grow(const ec_host *host, void *items, size_t *capacity, size_t count, size_t width);

#endif
