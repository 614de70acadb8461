/* Rewrites a vector after the last byte of its FlatBuffer, because offsets only go forward. Its
 * tables are copied with everything below them, and its field gets a new offset. */
#include "testing/fuzz_grow.h"

#include <string.h>

#include "testing/fb_build.h"

enum { MAX_GROWABLES = 1 << 12, ALIGN = 128, MAX_DEPTH = 64 };

/* A field with a vector, a string or strings. */
typedef struct growable {
  const uint8_t *slot;
  const ec_fb_field *field;
} growable;

typedef struct finder {
  growable growables[MAX_GROWABLES];
  size_t count;
} finder;

static void find_in_table(finder *f, ec_fb_table table, const ec_fb_schema *schema);

static void find_in_field(finder *f, ec_fb_table table, const ec_fb_field *field) {
  const uint8_t *slot = ec_fb_field_at(table, field->id);
  if (!slot || field->type == EC_FB_SCALAR) return;
  if (field->type == EC_FB_TABLE) {
    find_in_table(f, ec_fb_child(table, field->id), field->tables[0]);
    return;
  }
  if (field->type == EC_FB_UNION) {
    const uint8_t type = ec_fb_u8(table, field->id - 1u);
    if (type && type < field->table_count)
      find_in_table(f, ec_fb_child(table, field->id), field->tables[type]);
    return;
  }
  if (f->count < MAX_GROWABLES) f->growables[f->count++] = (growable){slot, field};
  ec_fb_vec items = ec_fb_vector(table, field->id);
  for (uint32_t i = 0; field->type == EC_FB_TABLES && i < items.count; i++)
    find_in_table(f, ec_fb_vec_table(items, i), field->tables[0]);
}

static void find_in_table(finder *f, ec_fb_table table, const ec_fb_schema *schema) {
  for (size_t i = 0; table && f->count < MAX_GROWABLES && i < schema->field_count; i++)
    find_in_field(f, table, &schema->fields[i]);
}

/* ---- copies ------------------------------------------------------------------------------ */

static size_t copy_table(ec_fb_writer *w, ec_fb_table table, const ec_fb_schema *schema, int depth);

/* The vector that `slot` points to, item order[i] at i. */
static size_t copy_vector(ec_fb_writer *w, const uint8_t *slot, const ec_fb_field *field,
                          const uint32_t *order, uint32_t count, int depth) {
  const uint8_t *at = slot + ec_read_u32(slot);
  const ec_fb_vec items = {at + 4, ec_read_u32(at)};
  const int scalars = field->type == EC_FB_VECTOR;
  const size_t width = scalars ? field->size : 4;
  const size_t copy = ec_fb_put_vector(w, NULL, count, width);
  for (uint32_t i = 0; !w->failed && i < count; i++) {
    const uint32_t from = order ? order[i] : i;
    const size_t to = copy + 4 + i * width;
    if (scalars) {
      memcpy(w->data + to, items.items + from * width, width);
    } else if (field->type == EC_FB_TABLES) {
      ec_fb_link(w, to, copy_table(w, ec_fb_vec_table(items, from), field->tables[0], depth));
    } else {
      const uint8_t *text = (const uint8_t *)ec_fb_vec_string(items, from);
      ec_fb_link(w, to, ec_fb_put_string(w, text, ec_read_u32(text - 4)));
    }
  }
  return copy;
}

static size_t copy_target(ec_fb_writer *w, ec_fb_table table, const ec_fb_field *field, int depth) {
  const uint8_t *slot = ec_fb_field_at(table, field->id), *at = slot + ec_read_u32(slot);
  switch ((ec_fb_type)field->type) {
  case EC_FB_STRING: return ec_fb_put_string(w, at + 4, ec_read_u32(at));
  case EC_FB_TABLE: return copy_table(w, at, field->tables[0], depth);
  case EC_FB_UNION: return copy_table(w, at, field->tables[ec_fb_u8(table, field->id - 1u)], depth);
  default: return copy_vector(w, slot, field, NULL, ec_read_u32(at), depth);
  }
}

/* With its vtable in front of it. Values of unknown type keep an offset that nobody follows. */
static size_t copy_table(ec_fb_writer *w, ec_fb_table table, const ec_fb_schema *schema,
                         int depth) {
  const uint8_t *vtable = table - (int32_t)ec_read_u32(table);
  uint16_t sizes[2];
  memcpy(sizes, vtable, sizeof sizes);
  const size_t front = ec_fb_put(w, vtable, sizes[0], 2);
  const size_t copy = ec_fb_put(w, table, sizes[1], 8);
  if (depth >= MAX_DEPTH) w->failed = true;
  if (w->failed) return 0;
  ec_fb_poke(w, copy, copy - front, 4);
  for (size_t i = 0; i < schema->field_count; i++) {
    const ec_fb_field *field = &schema->fields[i];
    const uint8_t *slot = ec_fb_field_at(table, field->id);
    if (!slot || field->type == EC_FB_SCALAR) continue;
    if (field->type == EC_FB_UNION) {
      const uint8_t type = ec_fb_u8(table, field->id - 1u);
      if (type == 0 || type >= field->table_count) continue;
    }
    ec_fb_link(w, copy + (size_t)(slot - table), copy_target(w, table, field, depth + 1));
  }
  return copy;
}

/* ---- changes ----------------------------------------------------------------------------- */

enum { MAX_ITEMS = 2000 };

/* Chooses items and their order: one doubled, one left out, two exchanged, or a few. */
static uint32_t choose_order(uint32_t *order, uint32_t count, ec_random *r) {
  uint32_t n = 0;
  const uint32_t a = (uint32_t)ec_random_below(r, count), b = (uint32_t)ec_random_below(r, count);
  const size_t kind = ec_random_below(r, 6);
  const uint32_t times = kind == 0 ? 1 + (uint32_t)ec_random_below(r, 8) : 1;
  for (uint32_t i = 0; i < count; i++) {
    for (uint32_t k = 0; kind <= 2 && i == b && k < times; k++) order[n++] = a;
    if (kind == 3 && i == a) continue;
    if (kind == 4 && i >= a && i < b) continue;
    order[n++] = kind == 5 && i == a ? b : kind == 5 && i == b ? a : i;
  }
  return n;
}

static size_t change_vector(ec_fb_writer *w, const growable *p, ec_random *r) {
  uint32_t order[MAX_ITEMS + 16];
  const uint32_t count = ec_read_u32(p->slot + ec_read_u32(p->slot));
  if (count == 0 || count > MAX_ITEMS) {
    w->failed = true;
    return 0;
  }
  return copy_vector(w, p->slot, p->field, order, choose_order(order, count, r), 0);
}

/* Cut off, or doubled. */
static size_t change_string(ec_fb_writer *w, const growable *p, ec_random *r) {
  uint8_t text[1024];
  const uint8_t *at = p->slot + ec_read_u32(p->slot);
  const uint32_t size = ec_read_u32(at);
  if (size > sizeof text / 2)
    return ec_fb_put_string(w, at + 4, (uint32_t)ec_random_below(r, size));
  memcpy(text, at + 4, size);
  memcpy(text + size, at + 4, size);
  return ec_fb_put_string(w, text, (uint32_t)ec_random_below(r, 2 * size + 1));
}

size_t ec_fuzz_grow(uint8_t *data, size_t size, size_t room, const ec_region *region,
                    ec_random *r) {
  static finder f;
  static uint8_t bytes[EC_BUILD_BYTES];
  ec_fb_writer w = {.data = bytes, .capacity = sizeof bytes};
  const size_t end = region->at + region->size;
  f.count = 0;
  find_in_table(&f, ec_fb_root(data + region->at), region->schema);
  if (!f.count) return size;
  const growable *p = &f.growables[ec_random_below(r, f.count)];
  const size_t slot = (size_t)(p->slot - data);
  const size_t grown = p->field->type == EC_FB_STRING ? change_string(&w, p, r)
                                                      : change_vector(&w, p, r);
  /* whole lines, so that the rest keeps its alignment */
  const size_t pad = (8 - region->size % 8) % 8;
  const size_t by = (pad + w.size + ALIGN - 1) / ALIGN * ALIGN;
  if (w.failed || by > room || size > room - by) return size;
  memmove(data + end + by, data + end, size - end);
  memset(data + end, 0, by);
  memcpy(data + end + pad, w.data, w.size);
  const uint32_t offset = (uint32_t)(end + pad + grown - slot);
  memcpy(data + slot, &offset, sizeof offset);
  region->grow(data, region, by);
  return size + by;
}
