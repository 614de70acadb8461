/* The small FlatBuffers writer of the tests. */
#include "testing/fb_build.h"

#include <stdlib.h>

static void poke(ec_build *b, size_t at, const void *bytes, size_t size) {
  if (at + size > sizeof b->data) abort(); /* a test that outgrew its buffer */
  memcpy(b->data + at, bytes, size);
}

size_t ec_build_put(ec_build *b, const void *bytes, size_t size, size_t align) {
  size_t at = (b->size + align - 1) / align * align;
  if (at + size > sizeof b->data) abort();
  if (bytes) memcpy(b->data + at, bytes, size);
  b->size = at + size;
  return at;
}

static uint16_t peek16(const ec_build *b, size_t at) {
  uint16_t value;
  memcpy(&value, b->data + at, sizeof value);
  return value;
}

static size_t vtable_of(const ec_build *b, size_t table) {
  int32_t back;
  memcpy(&back, b->data + table, sizeof back);
  return (size_t)((int64_t)table - back);
}

size_t ec_build_table(ec_build *b, const ec_fb_schema *schema) {
  size_t ids = schema->field_count ? schema->fields[schema->field_count - 1].id + 1u : 0;
  uint16_t vtable[64] = {(uint16_t)(4 + 2 * ids), 0};
  size_t used = 4;
  for (size_t i = 0; i < schema->field_count; i++) {
    const ec_fb_field *f = &schema->fields[i];
    size_t width = f->type == EC_FB_SCALAR ? f->size : 4;
    used = (used + width - 1) / width * width;
    vtable[2 + f->id] = (uint16_t)used;
    used += width;
  }
  vtable[1] = (uint16_t)used;
  size_t at = ec_build_put(b, vtable, 4 + 2 * ids, 2);
  size_t table = ec_build_put(b, NULL, used, 8);
  int32_t back = (int32_t)(table - at);
  poke(b, table, &back, sizeof back);
  return table;
}

size_t ec_build_field(const ec_build *b, size_t table, unsigned id) {
  return table + peek16(b, vtable_of(b, table) + 4 + 2 * (size_t)id);
}

void ec_build_scalar(ec_build *b, size_t table, unsigned id, uint64_t value, size_t size) {
  poke(b, ec_build_field(b, table, id), &value, size);
}

void ec_build_drop(ec_build *b, size_t table, unsigned id) {
  uint16_t none = 0;
  poke(b, vtable_of(b, table) + 4 + 2 * (size_t)id, &none, sizeof none);
}

void ec_build_finish(ec_build *b, size_t table, const ec_fb_schema *schema) {
  for (size_t i = 0; i < schema->field_count; i++) {
    uint32_t offset;
    size_t at = ec_build_field(b, table, schema->fields[i].id);
    memcpy(&offset, b->data + at, sizeof offset);
    if (schema->fields[i].type != EC_FB_SCALAR && offset == 0)
      ec_build_drop(b, table, schema->fields[i].id);
  }
}

void ec_build_link(ec_build *b, size_t slot, size_t target) {
  uint32_t offset = (uint32_t)(target - slot);
  poke(b, slot, &offset, sizeof offset);
}

void ec_build_string(ec_build *b, size_t table, unsigned id, const char *text) {
  uint32_t bytes = (uint32_t)strlen(text);
  size_t at = ec_build_put(b, &bytes, sizeof bytes, 4);
  ec_build_put(b, text, bytes + 1, 1);
  ec_build_link(b, ec_build_field(b, table, id), at);
}

size_t ec_build_vector(ec_build *b, size_t table, unsigned id, const void *items, uint32_t count,
                       size_t width) {
  while (width == 8 && (b->size + 4) % 8 != 0) b->size++; /* items aligned, not the count */
  size_t at = ec_build_put(b, &count, sizeof count, 4);
  ec_build_put(b, items, count * width, 1);
  ec_build_link(b, ec_build_field(b, table, id), at);
  return at;
}

size_t ec_build_child(ec_build *b, size_t table, unsigned id, const ec_fb_schema *schema) {
  size_t child = ec_build_table(b, schema);
  ec_build_link(b, ec_build_field(b, table, id), child);
  return child;
}

size_t ec_build_slots(ec_build *b, size_t table, unsigned id, uint32_t count) {
  return ec_build_vector(b, table, id, NULL, count, 4) + 4;
}

size_t ec_build_one(ec_build *b, size_t table, unsigned id, const ec_fb_schema *schema) {
  size_t slot = ec_build_slots(b, table, id, 1);
  size_t child = ec_build_table(b, schema);
  ec_build_link(b, slot, child);
  return child;
}

const ec_fb_schema *ec_schema_child(const ec_fb_schema *schema, unsigned id, size_t which) {
  for (size_t i = 0; i < schema->field_count; i++)
    if (schema->fields[i].id == id && which < schema->fields[i].table_count)
      return schema->fields[i].tables[which];
  abort();
}
