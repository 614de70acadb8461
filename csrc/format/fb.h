/* FlatBuffers: a structural verifier driven by schema tables, and accessors for verified buffers.
 *
 * ec_fb_verify walks a buffer once: offsets, vtables, vectors, strings, unions and nesting. The
 * accessors below are then safe on the root and on everything reachable from it, for any content.
 * Reads use memcpy, so the buffer may have any alignment. */
#ifndef EC_FORMAT_FB_H
#define EC_FORMAT_FB_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "core/error.h"

typedef enum ec_fb_type {
  EC_FB_SCALAR,  /* `size` bytes inline */
  EC_FB_STRING,  /* NUL-terminated */
  EC_FB_VECTOR,  /* of scalars of `size` bytes */
  EC_FB_TABLE,   /* of `tables[0]` */
  EC_FB_TABLES,  /* vector of tables of `tables[0]` */
  EC_FB_STRINGS, /* vector of strings */
  EC_FB_UNION    /* field id is that of the value; the type byte is field id - 1;
                    `tables` by type, [0] unused; unknown types are left for the reader */
} ec_fb_type;

typedef struct ec_fb_schema ec_fb_schema;

typedef struct ec_fb_field {
  const char *name;
  uint16_t id;
  uint8_t type; /* an ec_fb_type */
  uint8_t size; /* of a scalar, or of a vector's item */
  const ec_fb_schema *const *tables;
  size_t table_count;
} ec_fb_field;

struct ec_fb_schema {
  const char *name;
  const ec_fb_field *fields;
  size_t field_count;
};

/* A table in a verified buffer; NULL for an absent field. */
typedef const uint8_t *ec_fb_table;

/* A vector in a verified buffer; items NULL for an absent field. */
typedef struct ec_fb_vec {
  const uint8_t *items;
  uint32_t count;
} ec_fb_vec;

/* A range of bytes of a file. */
typedef struct ec_bytes {
  const uint8_t *data;
  size_t size;
} ec_bytes;

/* Unaligned little-endian reads. */
static inline uint32_t ec_read_u32(const uint8_t *at) {
  uint32_t value;
  memcpy(&value, at, sizeof value);
  return value;
}
static inline uint64_t ec_read_u64(const uint8_t *at) {
  uint64_t value;
  memcpy(&value, at, sizeof value);
  return value;
}

/* Verifies the table `root` at the offset in the first u32 of `data`, and everything below it.
 * `what` names the file in messages ("program"). InvalidProgram states the path of fields
 * ("execution_plan[0].values[12].val.sizes"), and what was found and expected. */
ec_status ec_fb_verify(const uint8_t *data, size_t size, const ec_fb_schema *root, const char *what,
                       ec_error *err);

ec_fb_table ec_fb_root(const uint8_t *data);

/* Refuses a root whose field `id`, the version of its schema, is above `newest`: a uint32, or a
 * decimal text, whose absence is no error. */
ec_status ec_fb_check_version(ec_fb_table root, unsigned id, uint32_t newest, ec_status status,
                              ec_error *err);
ec_status ec_fb_check_text_version(ec_fb_table root, unsigned id, uint32_t newest,
                                   ec_status status, ec_error *err);

/* Returns the address of field `id` of a table; NULL if it is absent. */
const uint8_t *ec_fb_field_at(ec_fb_table table, unsigned id);

/* Scalars of a table; `otherwise` if the field is absent (or the table is NULL). */
static inline uint64_t ec_fb_get(ec_fb_table table, unsigned id, size_t size, uint64_t otherwise) {
  const uint8_t *at = table ? ec_fb_field_at(table, id) : NULL;
  uint64_t value = 0;
  if (!at) return otherwise;
  for (size_t i = 0; i < size; i++) value |= (uint64_t)at[i] << (8 * i);
  return value;
}
static inline bool ec_fb_bool(ec_fb_table t, unsigned id) { return ec_fb_get(t, id, 1, 0) != 0; }
static inline uint8_t ec_fb_u8(ec_fb_table t, unsigned id) {
  return (uint8_t)ec_fb_get(t, id, 1, 0);
}
static inline int8_t ec_fb_i8(ec_fb_table t, unsigned id) { return (int8_t)ec_fb_get(t, id, 1, 0); }
static inline int32_t ec_fb_i32(ec_fb_table t, unsigned id) {
  return (int32_t)ec_fb_get(t, id, 4, 0);
}
static inline uint32_t ec_fb_u32(ec_fb_table t, unsigned id) {
  return (uint32_t)ec_fb_get(t, id, 4, 0);
}
static inline int64_t ec_fb_i64(ec_fb_table t, unsigned id) {
  return (int64_t)ec_fb_get(t, id, 8, 0);
}
static inline uint64_t ec_fb_u64(ec_fb_table t, unsigned id) { return ec_fb_get(t, id, 8, 0); }
double ec_fb_f64(ec_fb_table table, unsigned id);
float ec_fb_f32(ec_fb_table table, unsigned id);

/* Strings (NUL-terminated; NULL if absent), tables, union values and vectors. Read a union's value
 * only if the schema knows its type byte: other values are not verified. */
const char *ec_fb_string(ec_fb_table table, unsigned id);
ec_fb_table ec_fb_child(ec_fb_table table, unsigned id);
ec_fb_vec ec_fb_vector(ec_fb_table table, unsigned id);
/* Returns the bytes of a string without its NUL (it may contain NULs); 0 if absent. */
uint32_t ec_fb_string_size(ec_fb_table table, unsigned id);
/* Returns the value of the union `id` if its type byte is `type`, else NULL. */
ec_fb_table ec_fb_union(ec_fb_table table, unsigned id, uint8_t type);

/* Returns an item; `index` must be below count. */
ec_fb_table ec_fb_vec_table(ec_fb_vec vec, uint32_t index);
const char *ec_fb_vec_string(ec_fb_vec vec, uint32_t index);
static inline int32_t ec_fb_vec_i32(ec_fb_vec vec, uint32_t index) {
  int32_t value;
  memcpy(&value, vec.items + (size_t)index * 4, 4);
  return value;
}
static inline int64_t ec_fb_vec_i64(ec_fb_vec vec, uint32_t index) {
  int64_t value;
  memcpy(&value, vec.items + (size_t)index * 8, 8);
  return value;
}
static inline uint64_t ec_fb_vec_u64(ec_fb_vec vec, uint32_t index) {
  return (uint64_t)ec_fb_vec_i64(vec, index);
}
static inline double ec_fb_vec_f64(ec_fb_vec vec, uint32_t index) {
  double value;
  memcpy(&value, vec.items + (size_t)index * 8, 8);
  return value;
}

#endif
