/* Damage: bits, bytes, numbers at aligned offsets, moved or repeated pieces, truncation. */
#include "testing/fuzz_mutate.h"

#include <string.h>

ec_random ec_random_seed(uint64_t seed, uint64_t number) {
  uint64_t s = seed * 0x9e3779b97f4a7c15u + number + 1; /* splitmix64 decorrelates neighbours */
  s = (s ^ s >> 30) * 0xbf58476d1ce4e5b9u;
  s = (s ^ s >> 27) * 0x94d049bb133111ebu;
  s ^= s >> 31;
  return (ec_random){s ? s : 1};
}

uint64_t ec_random_next(ec_random *r) {
  r->state ^= r->state >> 12;
  r->state ^= r->state << 25;
  r->state ^= r->state >> 27;
  return r->state * 0x2545f4914f6cdd1du;
}

size_t ec_random_below(ec_random *r, size_t n) { return (size_t)((ec_random_next(r) >> 16) % n); }

/* Numbers that are critical for programs, as stored in files; small ones are indices. */
static const uint64_t interesting[] = {
    0, 1, 2, 3, 4, 7, 8, 15, 16, 17, 31, 64, 127, 128, 255, 256, 1000, 4096, 65535, 65536,
    0x7fffffff, 0x80000000, 0xffffffff, 0xfffffffe, 0xfffffffc, 0x40000000, 0x3fffffff,
    (uint64_t)1 << 32, (uint64_t)1 << 40, (uint64_t)1 << 60, (uint64_t)1 << 61,
    0x7fffffffffffffff, 0x8000000000000000, 0xffffffffffffffff, 0xfffffffffffffff0,
    0x7ff0000000000000, 0x7ff8000000000000,
    /* as scales: 1, -1, the smallest, the largest, infinity and NaN of float32; of float64 */
    0x3f800000, 0xbf800000, 0x00800000, 0x7f7fffff, 0x7f800000, 0x7fc00000,
    0xbff0000000000000, 0x0010000000000000, 0x7fefffffffffffff};

static uint64_t pick_number(ec_random *r) {
  if (ec_random_below(r, 3) == 0) return ec_random_below(r, 40);
  return interesting[ec_random_below(r, sizeof interesting / sizeof interesting[0])];
}

/* Returns an offset for `width` bytes, aligned to them. */
static size_t pick_place(ec_random *r, size_t size, size_t width) {
  return size < width ? size : ec_random_below(r, size / width) * width;
}

static void change_number(uint8_t *at, size_t width, ec_random *r) {
  uint64_t value = 0;
  memcpy(&value, at, width);
  switch (ec_random_below(r, 4)) {
  case 0: value += ec_random_below(r, 9) - 4; break;
  case 1: value *= 2; break;
  default: value = pick_number(r);
  }
  memcpy(at, &value, width);
}

static void overwrite_number(uint8_t *data, size_t size, size_t width, ec_random *r) {
  size_t at = pick_place(r, size, width);
  if (at + width <= size) change_number(data + at, width, r);
}

/* Exchanges or copies two pieces of the same length. */
static void splice(uint8_t *data, size_t size, ec_random *r) {
  size_t widths[] = {2, 4, 8, 16, 32, 64};
  size_t width = widths[ec_random_below(r, 6)];
  uint8_t piece[64];
  if (size < width) return;
  size_t step = width < 4 ? 2 : 4;
  size_t from = ec_random_below(r, (size - width) / step + 1) * step;
  size_t to = ec_random_below(r, (size - width) / step + 1) * step;
  memcpy(piece, data + to, width);
  memmove(data + to, data + from, width);
  if (ec_random_below(r, 2) && (from + width <= to || to + width <= from))
    memcpy(data + from, piece, width);
}

static void mutate_once(uint8_t *data, size_t size, ec_random *r) {
  switch (ec_random_below(r, 10)) {
  case 0:
  case 1: data[ec_random_below(r, size)] ^= (uint8_t)(1u << ec_random_below(r, 8)); return;
  case 2: data[ec_random_below(r, size)] = (uint8_t)ec_random_next(r); return;
  case 3: overwrite_number(data, size, 1, r); return;
  case 4: overwrite_number(data, size, 2, r); return;
  case 5:
  case 6: overwrite_number(data, size, 4, r); return;
  case 7:
  case 8: overwrite_number(data, size, 8, r); return;
  default: splice(data, size, r);
  }
}

size_t ec_mutate(uint8_t *data, size_t size, size_t tables, ec_random *r) {
  size_t times = 1 + ec_random_below(r, 3) * ec_random_below(r, 3);
  if (tables > size) tables = size;
  if (ec_random_below(r, 40) == 0) size = ec_random_below(r, size);
  if (tables > size) tables = size;
  for (size_t i = 0; i < times && size; i++)
    mutate_once(data, tables && ec_random_below(r, 12) ? tables : size, r);
  return size;
}

/* ---- numbers of a program ---------------------------------------------------------------- */

typedef struct finder {
  const uint8_t *data;
  ec_spot *spots;
  size_t room, count;
} finder;

static void add_spots(finder *f, const uint8_t *at, size_t width, size_t count) {
  for (size_t i = 0; at && i < count && f->count < f->room; i++)
    f->spots[f->count++] =
        (ec_spot){(uint32_t)((size_t)(at - f->data) + i * width), (uint8_t)width};
}

static void find_in_table(finder *f, ec_fb_table table, const ec_fb_schema *schema);

static void find_in_field(finder *f, ec_fb_table table, const ec_fb_field *field) {
  enum { LONG_VECTOR = 64 }; /* bytes of payloads get the other kind of damage */
  ec_fb_vec vec;
  switch ((ec_fb_type)field->type) {
  case EC_FB_SCALAR: add_spots(f, ec_fb_field_at(table, field->id), field->size, 1); return;
  case EC_FB_VECTOR:
    vec = ec_fb_vector(table, field->id);
    add_spots(f, vec.items, field->size, vec.count < LONG_VECTOR ? vec.count : LONG_VECTOR);
    return;
  case EC_FB_TABLE: find_in_table(f, ec_fb_child(table, field->id), field->tables[0]); return;
  case EC_FB_TABLES:
    vec = ec_fb_vector(table, field->id);
    for (uint32_t i = 0; i < vec.count; i++)
      find_in_table(f, ec_fb_vec_table(vec, i), field->tables[0]);
    return;
  case EC_FB_UNION: {
    uint8_t type = ec_fb_u8(table, field->id - 1u);
    if (type && type < field->table_count)
      find_in_table(f, ec_fb_child(table, field->id), field->tables[type]);
    return;
  }
  case EC_FB_STRING:
  case EC_FB_STRINGS: return;
  }
}

static void find_in_table(finder *f, ec_fb_table table, const ec_fb_schema *schema) {
  for (size_t i = 0; table && i < schema->field_count; i++)
    find_in_field(f, table, &schema->fields[i]);
}

size_t ec_find_spots(const uint8_t *data, ec_fb_table table, const ec_fb_schema *schema,
                     ec_spot *spots, size_t room) {
  finder f = {data, spots, room, 0};
  find_in_table(&f, table, schema);
  return f.count;
}

void ec_mutate_numbers(uint8_t *data, const ec_spot *spots, size_t count, ec_random *r) {
  size_t times = 1 + ec_random_below(r, 3) * ec_random_below(r, 3);
  for (size_t i = 0; i < times; i++) {
    const ec_spot *spot = &spots[ec_random_below(r, count)];
    change_number(data + spot->at, spot->width, r);
  }
}
