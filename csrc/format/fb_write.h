/* Writer of FlatBuffers, front to back: a table first, its children after it, linked as they are
 * appended. The first step without room sets `failed`; later ones do nothing. */
#ifndef EC_FORMAT_FB_WRITE_H
#define EC_FORMAT_FB_WRITE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct ec_fb_writer {
  uint8_t *data;
  size_t size, capacity;
  bool failed;
  void *(*alloc)(size_t size); /* NULL: `data` is the caller's, and does not grow */
  void (*free)(void *block);
} ec_fb_writer;

/* A field of a table. An offset has 4 bytes and the value 0 until it is linked. */
typedef struct ec_fb_slot {
  unsigned id, size;
  uint64_t value;
  size_t at; /* set by ec_fb_put_table */
} ec_fb_slot;

/* Appends bytes (NULL: zeros), aligned to `align`. Returns their position. */
size_t ec_fb_put(ec_fb_writer *w, const void *bytes, size_t size, size_t align);
/* Appends a table; fields in any order. Returns its position. */
size_t ec_fb_put_table(ec_fb_writer *w, ec_fb_slot *fields, size_t count);
/* Appends a vector; `items` NULL: zeros. Its items begin 4 bytes after the position. */
size_t ec_fb_put_vector(ec_fb_writer *w, const void *items, size_t count, size_t width);
size_t ec_fb_put_string(ec_fb_writer *w, const void *text, size_t size);
/* Overwrites an integer. */
void ec_fb_poke(ec_fb_writer *w, size_t at, uint64_t value, size_t size);
/* Points the offset at `slot` to `target` after it. */
void ec_fb_link(ec_fb_writer *w, size_t slot, size_t target);

#endif
