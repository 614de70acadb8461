/* A small FlatBuffers writer for tests: front to back, every field of a table is made room for,
 * links are patched. Fixed capacity; asserts nothing, tests check what comes out. */
#ifndef EC_TESTING_FB_BUILD_H
#define EC_TESTING_FB_BUILD_H

#include <stddef.h>
#include <stdint.h>

#include "format/fb.h"

enum { EC_BUILD_BYTES = 8192 };

typedef struct ec_build {
  uint8_t data[EC_BUILD_BYTES];
  size_t size;
} ec_build;

/* Bytes at the end, aligned to `align`; returns where they are. */
size_t ec_build_put(ec_build *b, const void *bytes, size_t size, size_t align);

/* A table with room for every field of its schema, all zero; returns where it is. Fields whose
 * zero is no valid value (offsets) have to be linked or dropped. */
size_t ec_build_table(ec_build *b, const ec_fb_schema *schema);

/* Where field `id` of a table is. */
size_t ec_build_field(const ec_build *b, size_t table, unsigned id);
void ec_build_scalar(ec_build *b, size_t table, unsigned id, uint64_t value, size_t size);
/* Makes a field absent. */
void ec_build_drop(ec_build *b, size_t table, unsigned id);
/* Makes all offset fields absent that were not linked yet. */
void ec_build_finish(ec_build *b, size_t table, const ec_fb_schema *schema);

/* Points the offset at `slot` to `target` behind it. */
void ec_build_link(ec_build *b, size_t slot, size_t target);

/* New objects at the end, linked from field `id` of a table. */
void ec_build_string(ec_build *b, size_t table, unsigned id, const char *text);
size_t ec_build_vector(ec_build *b, size_t table, unsigned id, const void *items, uint32_t count,
                       size_t width);
size_t ec_build_child(ec_build *b, size_t table, unsigned id, const ec_fb_schema *schema);
/* A vector of one table, which is returned. */
size_t ec_build_one(ec_build *b, size_t table, unsigned id, const ec_fb_schema *schema);
/* A vector of `count` empty slots; returns where the first slot is. */
size_t ec_build_slots(ec_build *b, size_t table, unsigned id, uint32_t count);

/* The schema of a field, and a field by name, found in `schema`. */
const ec_fb_schema *ec_schema_child(const ec_fb_schema *schema, unsigned id, size_t which);

#endif
