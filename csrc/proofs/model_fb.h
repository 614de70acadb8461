/* Accessors of a verified buffer, for proofs of their callers: tables have any fields, and vectors
 * are inside the file. That the real ones are so is what prove_fb_reads.c shows. */
#ifndef EC_PROOFS_MODEL_FB_H
#define EC_PROOFS_MODEL_FB_H

#include "core/checked.h"
#include "format/fb.h"
#include "proofs/prove.h"

static const uint8_t *model_file;
static size_t model_size;
static const uint8_t model_table;

/* Sets the file: bytes of any content, at least `least`. */
static void model_open(size_t least) {
  size_t size;
  assume(size >= least && size <= EC_PROVED_BYTES);
  model_size = size;
  model_file = any_bytes(size);
}

static bool model_has(const uint8_t *data, size_t size) {
  return size == 0 || (__CPROVER_same_object(data, model_file) &&
                       ec_in_range((uint64_t)(data - model_file), size, model_size));
}

const uint8_t *ec_fb_field_at(ec_fb_table table, unsigned id) {
  bool is_absent;
  prove(table != NULL, "a field is read of a table");
  return is_absent ? NULL : any_bytes(8);
}

ec_fb_table ec_fb_child(ec_fb_table table, unsigned id) {
  bool is_absent;
  return !table || is_absent ? NULL : &model_table;
}

ec_fb_vec ec_fb_vector(ec_fb_table table, unsigned id) {
  bool is_absent;
  uint32_t count;
  size_t at;
  if (!table || is_absent) return (ec_fb_vec){NULL, 0};
  assume(ec_in_range(at, count, model_size));
  return (ec_fb_vec){model_file + at, count};
}

ec_fb_table ec_fb_vec_table(ec_fb_vec vec, uint32_t index) {
  prove(index < vec.count, "an item is one of the vector's");
  return &model_table;
}

ec_fb_table ec_fb_root(const uint8_t *data) { return &model_table; }

ec_status ec_fb_verify(const uint8_t *data, size_t size, const ec_fb_schema *root, const char *what,
                       ec_error *err) {
  bool fails;
  prove(__CPROVER_r_ok(data, size), "what is verified is inside the file");
  return fails ? EC_INVALID_PROGRAM : EC_OK;
}

ec_status ec_fb_check_version(ec_fb_table root, unsigned id, uint32_t newest, ec_status status,
                              ec_error *err) {
  bool fails;
  return fails ? status : EC_OK;
}

ec_status ec_kind_fail(const uint8_t *data, size_t size, ec_status status, const char *expected,
                       ec_error *err) {
  return status;
}

#endif
