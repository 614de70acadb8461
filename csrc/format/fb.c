/* FlatBuffers: the structural verifier and the reads that it makes safe.
 *
 * The verifier walks the tables below the root depth first, driven by the schema. Its cost is
 * bounded by the file's size, not by its content: see ec_fb_verify. Paths for messages are links
 * between the stack frames of the walk, formatted only on failure. */
#include "format/fb.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "core/checked.h"
#include "core/limits.h"

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__,
               "scalars are read in place, and the file is little-endian");

enum { PATH_BYTES = 512, OFFSET_BYTES = 4, SHARING = 4 };

static uint16_t read_u16(const uint8_t *at) {
  uint16_t value;
  memcpy(&value, at, sizeof value);
  return value;
}

/* A field on the path from the root to the table being verified. */
typedef struct field_path {
  const struct field_path *parent;
  const char *name;
  int64_t index; /* in a vector; -1: the field itself */
} field_path;

typedef struct verifier {
  const uint8_t *data;
  size_t size;
  size_t budget; /* bytes that may still be visited */
  size_t tables; /* tables that may still be visited */
  const char *what;
  ec_error *err;
} verifier;

/* A table with a checked header. Positions are offsets from the start of the buffer. */
typedef struct checked_table {
  size_t at, vtable;
  uint16_t bytes, vtable_bytes;
} checked_table;

static ec_status verify_table(verifier *v, size_t at, const ec_fb_schema *schema, unsigned depth,
                              const field_path *path);

static void format_path(const field_path *path, char *text, size_t size) {
  const field_path *links[EC_MAX_FB_DEPTH + 2];
  size_t steps = 0, used = 0;
  for (; path && steps < sizeof links / sizeof links[0]; path = path->parent) links[steps++] = path;
  text[0] = '\0';
  while (steps-- > 0 && used < size) {
    int n = snprintf(text + used, size - used, links[steps]->index < 0 ? "%s%s" : "%s%s[%lld]",
                     used ? "." : "", links[steps]->name, (long long)links[steps]->index);
    if (n < 0) return;
    used += (size_t)n;
  }
}

static ec_status fail_at(const verifier *v, const field_path *path, const char *fmt, ...)
    EC_PRINTF(3, 4);

static ec_status fail_at(const verifier *v, const field_path *path, const char *fmt, ...) {
  char where[PATH_BYTES], text[PATH_BYTES];
  va_list args;
  va_start(args, fmt);
  vsnprintf(text, sizeof text, fmt, args);
  va_end(args);
  format_path(path, where, sizeof where);
  return ec_fail(v->err, EC_INVALID_PROGRAM, "%s: %s%s%s", v->what, where, path ? ": " : "", text);
}

/* Charges a visited table, vector or string, plus the offset to it. */
static ec_status charge_bytes(verifier *v, size_t bytes, const field_path *path) {
  if (bytes > v->budget)
    return fail_at(v, path, "the references add up to more than %d times the %zu bytes",
                   SHARING, v->size);
  v->budget -= bytes;
  return EC_OK;
}

/* Checks that the header and the fields of the table at `at` lie inside the buffer. */
static ec_status check_table(verifier *v, size_t at, const ec_fb_schema *schema,
                             const field_path *path, checked_table *out) {
  if (v->tables == 0) return fail_at(v, path, "more than %d tables", EC_MAX_FB_TABLES);
  v->tables--;
  if (!ec_in_range(at, OFFSET_BYTES, v->size))
    return fail_at(v, path, "table %s at offset %zu lies outside the %zu bytes", schema->name, at,
                   v->size);
  int64_t vtable = (int64_t)at - (int32_t)ec_read_u32(v->data + at);
  if (vtable < 0 || !ec_in_range((uint64_t)vtable, 4, v->size))
    return fail_at(v, path, "vtable of %s at offset %lld lies outside the %zu bytes", schema->name,
                   (long long)vtable, v->size);
  out->at = at;
  out->vtable = (size_t)vtable;
  out->vtable_bytes = read_u16(v->data + out->vtable);
  out->bytes = read_u16(v->data + out->vtable + 2);
  if (out->vtable_bytes < 4 || out->vtable_bytes % 2 ||
      !ec_in_range(out->vtable, out->vtable_bytes, v->size))
    return fail_at(v, path, "vtable of %s at offset %zu has an impossible size of %u bytes",
                   schema->name, out->vtable, (unsigned)out->vtable_bytes);
  return charge_bytes(v, OFFSET_BYTES + (size_t)out->bytes, path);
}

/* Finds field `id` of `width` bytes; 0 if it is absent. It must lie inside the buffer, but may lie
 * beyond the size that the vtable states: flatbuffers 25.2.10 for Python lets tables of different
 * sizes share a vtable, and FlatBuffers' own verifier does not check that size. */
static ec_status check_field(verifier *v, const checked_table *table, unsigned id, size_t width,
                             const field_path *path, size_t *out) {
  size_t slot = 4 + 2 * (size_t)id;
  uint16_t offset = 0;
  if (slot + 2 <= table->vtable_bytes) offset = read_u16(v->data + table->vtable + slot);
  *out = offset ? table->at + offset : 0;
  if (offset && (offset < OFFSET_BYTES || !ec_in_range(*out, width, v->size)))
    return fail_at(v, path, "%zu bytes at offset %u of the table at %zu lie outside the %zu bytes",
                   width, (unsigned)offset, table->at, v->size);
  return EC_OK;
}

/* Follows the offset at `slot`: forward, to at least four bytes inside the buffer. */
static ec_status follow_offset(verifier *v, size_t slot, const field_path *path, size_t *out) {
  uint32_t offset = ec_read_u32(v->data + slot);
  *out = 0;
  if (offset < OFFSET_BYTES)
    return fail_at(v, path, "offset %u points to itself", (unsigned)offset);
  if (!ec_add_size(slot, offset, out) || !ec_in_range(*out, OFFSET_BYTES, v->size))
    return fail_at(v, path, "offset %u at %zu points outside the %zu bytes", (unsigned)offset, slot,
                   v->size);
  return EC_OK;
}

/* Checks the vector at `at` with items of `width` bytes. */
static ec_status check_vector(verifier *v, size_t at, size_t width, const field_path *path,
                              uint32_t *count) {
  *count = ec_read_u32(v->data + at);
  size_t room = v->size - at - OFFSET_BYTES;
  if (*count > room / width)
    return fail_at(v, path, "vector of %u items of %zu bytes does not fit into %zu bytes",
                   (unsigned)*count, width, room);
  return charge_bytes(v, 2 * OFFSET_BYTES + *count * width, path);
}

static ec_status check_string(verifier *v, size_t at, const field_path *path) {
  uint32_t bytes;
  EC_TRY(check_vector(v, at, 1, path, &bytes));
  size_t end = at + OFFSET_BYTES + bytes;
  if (end >= v->size || v->data[end] != 0)
    return fail_at(v, path, "string of %u bytes at offset %zu is not NUL-terminated",
                   (unsigned)bytes, at);
  return EC_OK;
}

static ec_status verify_strings(verifier *v, size_t at, field_path *path) {
  uint32_t count;
  size_t item;
  EC_TRY(check_vector(v, at, OFFSET_BYTES, path, &count));
  for (uint32_t i = 0; i < count; i++) {
    path->index = i;
    EC_TRY(follow_offset(v, at + OFFSET_BYTES + (size_t)i * OFFSET_BYTES, path, &item));
    EC_TRY(check_string(v, item, path));
  }
  return EC_OK;
}

static ec_status verify_tables(verifier *v, size_t at, const ec_fb_schema *schema, unsigned depth,
                               field_path *path) {
  uint32_t count;
  size_t item;
  EC_TRY(check_vector(v, at, OFFSET_BYTES, path, &count));
  for (uint32_t i = 0; i < count; i++) {
    path->index = i;
    EC_TRY(follow_offset(v, at + OFFSET_BYTES + (size_t)i * OFFSET_BYTES, path, &item));
    EC_TRY(verify_table(v, item, schema, depth, path));
  }
  return EC_OK;
}

/* Verifies a union's value if its type byte is known. Unknown types are never read. */
static ec_status verify_union(verifier *v, const checked_table *table, const ec_fb_field *field,
                              size_t at, unsigned depth, const field_path *path) {
  size_t type_at, value;
  EC_TRY(check_field(v, table, field->id - 1u, 1, path, &type_at));
  size_t type = type_at ? v->data[type_at] : 0;
  if (type == 0 || type >= field->table_count) return EC_OK;
  EC_TRY(follow_offset(v, at, path, &value));
  return verify_table(v, value, field->tables[type], depth, path);
}

static ec_status verify_field(verifier *v, const checked_table *table, const ec_fb_field *field,
                              unsigned depth, const field_path *parent) {
  field_path path = {parent, field->name, -1};
  size_t at, target;
  uint32_t count;
  size_t width = field->type == EC_FB_SCALAR ? field->size : OFFSET_BYTES;
  EC_TRY(check_field(v, table, field->id, width, &path, &at));
  if (!at || field->type == EC_FB_SCALAR) return EC_OK;
  if (field->type == EC_FB_UNION) return verify_union(v, table, field, at, depth, &path);
  EC_TRY(follow_offset(v, at, &path, &target));
  switch ((ec_fb_type)field->type) {
  case EC_FB_STRING: return check_string(v, target, &path);
  case EC_FB_VECTOR: return check_vector(v, target, field->size, &path, &count);
  case EC_FB_TABLE: return verify_table(v, target, field->tables[0], depth, &path);
  case EC_FB_TABLES: return verify_tables(v, target, field->tables[0], depth, &path);
  case EC_FB_STRINGS: return verify_strings(v, target, &path);
  case EC_FB_SCALAR:
  case EC_FB_UNION: break;
  }
  return EC_OK;
}

static ec_status verify_table(verifier *v, size_t at, const ec_fb_schema *schema, unsigned depth,
                              const field_path *path) {
  checked_table table = {0};
  if (depth == 0)
    return fail_at(v, path, "tables are nested more than %d deep", EC_MAX_FB_DEPTH);
  EC_TRY(check_table(v, at, schema, path, &table));
  for (size_t i = 0; i < schema->field_count; i++)
    EC_TRY(verify_field(v, &table, &schema->fields[i], depth - 1, path));
  return EC_OK;
}

/* Without sharing, all references add up to at most the file's size. Writers share little (at most
 * strings), so a small multiple of the size is enough. The limit bounds the cost of files whose
 * vectors all point to the same tables or lists, here and in every later linear pass. */
ec_status ec_fb_verify(const uint8_t *data, size_t size, const ec_fb_schema *root, const char *what,
                       ec_error *err) {
  verifier v = {data, size, 0, EC_MAX_FB_TABLES, what, err};
  size_t at;
  if (size < 8 || size > EC_MAX_BYTES)
    return fail_at(&v, NULL, "a FlatBuffer cannot have %zu bytes", size);
  v.budget = size > SIZE_MAX / SHARING ? SIZE_MAX : size * SHARING;
  EC_TRY(follow_offset(&v, 0, NULL, &at));
  return verify_table(&v, at, root, EC_MAX_FB_DEPTH, NULL);
}

static const uint8_t *offset_target(const uint8_t *slot) { return slot + ec_read_u32(slot); }

ec_fb_table ec_fb_root(const uint8_t *data) { return offset_target(data); }

ec_status ec_fb_check_version(ec_fb_table root, unsigned id, uint32_t newest, ec_status status,
                              ec_error *err) {
  const uint32_t version = ec_fb_u32(root, id);
  if (version <= newest) return EC_OK;
  return ec_fail(err, status,
                 "version %" PRIu32 " of the schema, expected at most %" PRIu32
                 ": export with an older ExecuTorch, or use a newer executorch_c",
                 version, newest);
}

ec_status ec_fb_check_text_version(ec_fb_table root, unsigned id, uint32_t newest,
                                   ec_status status, ec_error *err) {
  const char *text = ec_fb_string(root, id);
  char *end = NULL;
  if (!text || (isdigit((unsigned char)*text) && strtoull(text, &end, 10) <= newest && !*end))
    return EC_OK;
  return ec_fail(err, status,
                 "version '%.20s' of the schema, expected at most %" PRIu32
                 ": export with an older ExecuTorch, or use a newer executorch_c",
                 text, newest);
}

const uint8_t *ec_fb_field_at(ec_fb_table table, unsigned id) {
  const uint8_t *vtable = table - (int32_t)ec_read_u32(table);
  size_t slot = 4 + 2 * (size_t)id;
  if (slot + 2 > read_u16(vtable)) return NULL;
  uint16_t offset = read_u16(vtable + slot);
  return offset ? table + offset : NULL;
}

/* Returns the target of the offset in field `id`; NULL if the field or the table is absent. */
static const uint8_t *field_target(ec_fb_table table, unsigned id) {
  const uint8_t *slot = table ? ec_fb_field_at(table, id) : NULL;
  return slot ? offset_target(slot) : NULL;
}

double ec_fb_f64(ec_fb_table table, unsigned id) {
  const uint8_t *at = table ? ec_fb_field_at(table, id) : NULL;
  double value = 0;
  if (at) memcpy(&value, at, sizeof value);
  return value;
}

float ec_fb_f32(ec_fb_table table, unsigned id) {
  const uint8_t *at = table ? ec_fb_field_at(table, id) : NULL;
  float value = 0;
  if (at) memcpy(&value, at, sizeof value);
  return value;
}

const char *ec_fb_string(ec_fb_table table, unsigned id) {
  const uint8_t *at = field_target(table, id);
  return at ? (const char *)at + OFFSET_BYTES : NULL;
}

uint32_t ec_fb_string_size(ec_fb_table table, unsigned id) {
  const uint8_t *at = field_target(table, id);
  return at ? ec_read_u32(at) : 0;
}

ec_fb_table ec_fb_child(ec_fb_table table, unsigned id) { return field_target(table, id); }

ec_fb_table ec_fb_union(ec_fb_table table, unsigned id, uint8_t type) {
  return ec_fb_u8(table, id - 1) == type ? field_target(table, id) : NULL;
}

ec_fb_vec ec_fb_vector(ec_fb_table table, unsigned id) {
  const uint8_t *at = field_target(table, id);
  return at ? (ec_fb_vec){at + OFFSET_BYTES, ec_read_u32(at)} : (ec_fb_vec){NULL, 0};
}

ec_fb_table ec_fb_vec_table(ec_fb_vec vec, uint32_t index) {
  return offset_target(vec.items + (size_t)index * OFFSET_BYTES);
}

const char *ec_fb_vec_string(ec_fb_vec vec, uint32_t index) {
  return (const char *)offset_target(vec.items + (size_t)index * OFFSET_BYTES) + OFFSET_BYTES;
}
