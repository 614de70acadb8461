/* Tables of a schema from text, and places in them by path. */
#include "testing/fb_text.h"

#include <stdio.h>
#include <stdlib.h>

static const char WORD[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_";

typedef struct writer {
  ec_fb_writer *b;
  const char *at; /* in the text */
} writer;

static void expect_that(bool holds, const char *expected, const char *at) {
  if (holds) return;
  fprintf(stderr, "fb_text: expected %s at: %.60s\n", expected, at);
  abort();
}

static bool accept_char(writer *w, char c) {
  w->at += strspn(w->at, " ,:");
  if (*w->at != c) return false;
  w->at++;
  return true;
}

static void expect_char(writer *w, char c) {
  expect_that(accept_char(w, c), (char[]){c, '\0'}, w->at);
}

static bool is_word(const char *at, size_t size, const char *name) {
  return strlen(name) == size && memcmp(at, name, size) == 0;
}

static const ec_fb_field *parse_field(const char **at, const ec_fb_schema *schema) {
  const size_t size = strspn(*at, WORD);
  size_t i = 0;
  while (i < schema->field_count && !is_word(*at, size, schema->fields[i].name)) i++;
  expect_that(i < schema->field_count, schema->name, *at);
  *at += size;
  return &schema->fields[i];
}

/* ---- tables ------------------------------------------------------------------------------- */

/* The offset of field `index` in its table; after the last field, the size of the table. */
static uint16_t place_field(const ec_fb_schema *schema, size_t index) {
  size_t at = 4;
  for (size_t i = 0; i < schema->field_count; i++) {
    const ec_fb_field *f = &schema->fields[i];
    const size_t width = f->type == EC_FB_SCALAR ? f->size : 4;
    at = (at + width - 1) / width * width;
    if (i == index) break;
    at += width;
  }
  return (uint16_t)at;
}

static size_t vtable_of(const ec_fb_writer *b, size_t table) {
  return table - ec_read_u32(b->data + table);
}

static size_t put_table(ec_fb_writer *b, const ec_fb_schema *schema) {
  const size_t count = schema->field_count, ids = count ? schema->fields[count - 1].id + 1u : 0;
  uint16_t vtable[64] = {(uint16_t)(4 + 2 * ids), place_field(schema, count)};
  for (size_t i = 0; i < count; i++)
    if (schema->fields[i].type == EC_FB_SCALAR)
      vtable[2 + schema->fields[i].id] = place_field(schema, i);
  const size_t front = ec_fb_put(b, vtable, vtable[0], 2);
  const size_t table = ec_fb_put(b, NULL, vtable[1], 8);
  ec_fb_poke(b, table, table - front, 4);
  return table;
}

/* Makes the field present; returns where it is. */
static size_t add_field(ec_fb_writer *b, size_t table, const ec_fb_schema *schema,
                        const ec_fb_field *f) {
  const uint16_t offset = place_field(schema, (size_t)(f - schema->fields));
  ec_fb_poke(b, vtable_of(b, table) + 4 + 2u * f->id, offset, 2);
  return table + offset;
}

/* ---- what fields hold --------------------------------------------------------------------- */

static size_t write_table(writer *w, const ec_fb_schema *schema);

static uint64_t parse_number(writer *w, size_t width) {
  char *end, *point;
  w->at += strspn(w->at, " ,:");
  const double real = strtod(w->at, &point);
  const float single = (float)real;
  uint64_t bits = 0;
  const uint64_t whole = (uint64_t)strtoll(w->at, &end, 10);
  expect_that(point != w->at, "a number", w->at);
  w->at = point;
  if (point == end) return whole;
  if (width == 4) memcpy(&bits, &single, 4);
  else memcpy(&bits, &real, 8);
  return bits;
}

static size_t write_string(writer *w) {
  expect_char(w, '\'');
  const char *text = w->at, *end = strchr(text, '\'');
  expect_that(end != NULL, "'", text);
  w->at = end + 1;
  return ec_fb_put_string(w->b, text, (uint32_t)(end - text));
}

static size_t write_vector(writer *w, size_t width) {
  if (!accept_char(w, '[')) return write_string(w);
  const size_t at = ec_fb_put_vector(w->b, NULL, 0, width);
  uint32_t count = 0;
  for (; !accept_char(w, ']'); count++) {
    const uint64_t number = parse_number(w, width);
    ec_fb_put(w->b, &number, width, 1);
  }
  ec_fb_poke(w->b, at, count, 4);
  return at;
}

/* Tables or strings up to the bracket that closes the list. */
static uint32_t count_items(const char *at) {
  uint32_t count = 0;
  for (int depth = 0; depth || *at != ']'; at++) {
    const bool outside = depth == 0;
    expect_that(*at, "]", at);
    if (*at == '\'') at = strchr(at + 1, '\'');
    depth += (*at == '{' || *at == '[') - (*at == '}' || *at == ']');
    if (outside && *at == '*') count += (uint32_t)strtoul(at + 1, NULL, 10) - 1;
    else count += !depth && (*at == '}' || *at == '\'');
  }
  return count;
}

static size_t write_list(writer *w, const ec_fb_field *f) {
  expect_char(w, '[');
  const uint32_t count = count_items(w->at);
  const size_t at = ec_fb_put_vector(w->b, NULL, count, 4);
  for (uint32_t i = 0; i < count;) {
    const size_t item = f->type == EC_FB_STRINGS ? write_string(w) : write_table(w, f->tables[0]);
    uint64_t times = accept_char(w, '*') ? parse_number(w, 8) : 1;
    while (times--) ec_fb_link(w->b, at + 4 + 4u * i++, item);
  }
  expect_char(w, ']');
  return at;
}

/* The number of the member that the text names. */
static uint8_t parse_member(writer *w, const ec_fb_field *f) {
  uint8_t type = 1;
  w->at += strspn(w->at, " ,:");
  const size_t size = strspn(w->at, WORD);
  while (type < f->table_count && !is_word(w->at, size, f->tables[type]->name)) type++;
  expect_that(type < f->table_count, f->name, w->at);
  w->at += size;
  return type;
}

static size_t write_field(writer *w, const ec_fb_field *f, uint8_t member) {
  switch ((ec_fb_type)f->type) {
  case EC_FB_STRING: return write_string(w);
  case EC_FB_VECTOR: return write_vector(w, f->size);
  case EC_FB_TABLE:
  case EC_FB_UNION: return write_table(w, f->tables[member]);
  default: return write_list(w, f);
  }
}

static size_t write_table(writer *w, const ec_fb_schema *schema) {
  const size_t table = put_table(w->b, schema);
  expect_char(w, '{');
  while (!accept_char(w, '}')) {
    const ec_fb_field *f = parse_field(&w->at, schema);
    const size_t slot = add_field(w->b, table, schema, f);
    if (f->type == EC_FB_SCALAR) {
      ec_fb_poke(w->b, slot, parse_number(w, f->size), f->size);
      continue;
    }
    const uint8_t member = f->type == EC_FB_UNION ? parse_member(w, f) : 0;
    if (member) ec_fb_poke(w->b, add_field(w->b, table, schema, f - 1), member, 1);
    ec_fb_link(w->b, slot, write_field(w, f, member));
  }
  return table;
}

void ec_text_build(ec_fb_writer *b, const ec_fb_schema *schema, const char *text) {
  writer w = {b, text};
  ec_fb_link(b, 0, write_table(&w, schema));
  expect_that(!*w.at && !b->failed, "the end, inside the buffer", w.at);
}

/* ---- paths -------------------------------------------------------------------------------- */

typedef struct place {
  ec_fb_table table;
  const ec_fb_field *field;
  const uint8_t *slot, *content;
  size_t width; /* of the number that the content is, or begins with */
} place;

static place find_place(const ec_fb_writer *b, const ec_fb_schema *schema, const char *path) {
  place p = {.content = ec_fb_root(b->data)};
  for (;; path++) { /* over the point */
    p.table = p.content;
    p.field = parse_field(&path, schema);
    p.slot = p.content = ec_fb_field_at(p.table, p.field->id);
    expect_that(p.slot, "a field that is there", path);
    p.width = p.field->type == EC_FB_SCALAR || *path == '[' ? p.field->size : 4;
    if (p.field->type != EC_FB_SCALAR) p.content += ec_read_u32(p.slot);
    if (*path == '[') {
      const size_t index = strtoul(path + 1, NULL, 10);
      path = strchr(path, ']') + 1;
      p.content += 4 + index * (p.width ? p.width : 4);
      if (!p.width) p.content += ec_read_u32(p.content); /* tables and strings have offsets */
    }
    if (*path != '.') return p;
    const bool is_union = p.field->type == EC_FB_UNION;
    schema = p.field->tables[is_union ? ec_fb_u8(p.table, p.field->id - 1u) : 0];
  }
}

size_t ec_text_find(const ec_fb_writer *b, const ec_fb_schema *schema, const char *path) {
  return (size_t)(find_place(b, schema, path).content - b->data);
}

size_t ec_text_slot(const ec_fb_writer *b, const ec_fb_schema *schema, const char *path) {
  return (size_t)(find_place(b, schema, path).slot - b->data);
}

void ec_text_set(ec_fb_writer *b, const ec_fb_schema *schema, const char *path, uint64_t value) {
  const place p = find_place(b, schema, path);
  ec_fb_poke(b, (size_t)(p.content - b->data), value, p.width);
}

void ec_text_drop(ec_fb_writer *b, const ec_fb_schema *schema, const char *path) {
  const place p = find_place(b, schema, path);
  const size_t table = (size_t)(p.table - b->data);
  ec_fb_poke(b, vtable_of(b, table) + 4 + 2u * p.field->id, 0, 2);
}
