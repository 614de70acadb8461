/* The FlatBuffers verifier: whatever it lets through can be read. Buffers are copied to blocks of
 * their exact size, so that AddressSanitizer sees every byte read beyond them. */
#include <stdio.h>
#include <stdlib.h>

#include "core/limits.h"
#include "format/ptd.h"
#include "format/pte.h"
#include "testing/sample.h"
#include "testing/test.h"

/* Verifies an exact copy of the first `size` bytes, and reads all of it on success. */
static ec_status verify_copy(const ec_fb_writer *b, size_t size, const ec_fb_schema *schema,
                             ec_error *err) {
  uint8_t *copy = malloc(size ? size : 1);
  if (!copy) abort();
  memcpy(copy, b->data, size);
  ec_status status = ec_fb_verify(copy, size, schema, "test", err);
  if (status == EC_OK) ec_sample_read_all(ec_fb_root(copy), schema);
  free(copy);
  return status;
}

void ec_test_fb_sample_is_read(ec_test *t) {
  EC_BUILD(b);
  ec_error err = {0};
  ec_sample_pte(&b);
  EC_CHECK_OK(t, verify_copy(&b, b.size, ec_pte_schema(), &err), &err);
  ec_fb_table root = ec_fb_root(b.data);
  ec_fb_table plan = ec_fb_vec_table(ec_fb_vector(root, EC_PTE_Program_execution_plan), 0);
  EC_CHECK(t, !strcmp(ec_fb_string(plan, EC_PTE_ExecutionPlan_name), "forward"));
  EC_CHECK(t, ec_fb_string_size(plan, EC_PTE_ExecutionPlan_name) == 7);
  ec_fb_vec values = ec_fb_vector(plan, EC_PTE_ExecutionPlan_values);
  EC_CHECK(t, values.count == 11);
  ec_fb_table value = ec_fb_vec_table(values, 3);
  EC_CHECK(t, ec_fb_i64(ec_fb_union(value, EC_PTE_EValue_val, EC_PTE_INT), 0) == 7);
  EC_CHECK(t, ec_fb_union(value, EC_PTE_EValue_val, EC_PTE_BOOL) == NULL);
  value = ec_fb_child(ec_fb_vec_table(values, 7), EC_PTE_EValue_val);
  ec_fb_vec doubles = ec_fb_vector(value, EC_PTE_DoubleList_items);
  EC_CHECK(t, doubles.count == 2 && ec_fb_vec_f64(doubles, 1) == 2.0);
  EC_CHECK(t, ec_fb_get(NULL, 0, 8, 5) == 5 && ec_fb_string(NULL, 0) == NULL);
  EC_CHECK(t, ec_fb_vector(NULL, 0).items == NULL && ec_fb_f64(NULL, 0) == 0);
  ec_sample_ptd(&b);
  EC_CHECK_OK(t, verify_copy(&b, b.size, ec_ptd_schema(), &err), &err);
}

void ec_test_fb_truncated(ec_test *t) {
  EC_BUILD(b);
  ec_error err = {0};
  ec_sample_pte(&b);
  size_t end = ec_sample_pte_program_size(&b), passed = 0;
  for (size_t size = 0; size < end; size++)
    if (verify_copy(&b, size, ec_pte_schema(), &err) == EC_OK) passed++;
    else EC_CHECK(t, err.status == EC_INVALID_PROGRAM && strncmp(err.message, "test: ", 6) == 0);
  EC_CHECK(t, passed < 16); /* only the padding at the end may be missing */
}

/* Each byte gets eight flipped bits and some special values. No result is wrong, no read is out of
 * bounds (ASan), and most damage to offsets is found. */
void ec_test_fb_every_byte(ec_test *t) {
  static const uint8_t values[] = {0x00, 0x01, 0x7f, 0x80, 0xff};
  EC_BUILD(b);
  ec_error err = {0};
  size_t refused = 0;
  ec_sample_pte(&b);
  size_t end = ec_sample_pte_program_size(&b);
  for (size_t at = 0; at < end; at++) {
    uint8_t whole = b.data[at];
    for (unsigned bit = 0; bit < 8; bit++) {
      b.data[at] = (uint8_t)(whole ^ 1u << bit);
      refused += verify_copy(&b, end, ec_pte_schema(), &err) != EC_OK;
    }
    for (size_t i = 0; i < sizeof values; i++) {
      b.data[at] = values[i];
      refused += verify_copy(&b, end, ec_pte_schema(), &err) != EC_OK;
    }
    b.data[at] = whole;
  }
  EC_CHECK(t, refused > end);
  EC_CHECK_OK(t, verify_copy(&b, end, ec_pte_schema(), &err), &err);
}

#define VALUE "execution_plan[0].values[0]"
#define HELD VALUE ".val"

static void poke32(ec_fb_writer *b, size_t at, uint32_t value) { ec_fb_poke(b, at, value, 4); }

/* Builds the root of a schema from text, after the place of an identifier. */
static void build(ec_fb_writer *b, const ec_fb_schema *schema, const char *text) {
  ec_build_begin(b, 8);
  ec_text_build(b, schema, text);
}

/* A plan with one tensor. */
static void build_tiny(ec_fb_writer *b) {
  build(b, ec_pte_schema(), "{execution_plan: [{values: [{val: Tensor {sizes: [2 3]}}]}]}");
}

void ec_test_fb_paths(ec_test *t) {
  EC_BUILD(b);
  ec_error err = {0};
  build_tiny(&b);
  const size_t value = ec_text_find(&b, ec_pte_schema(), VALUE);
  const size_t held = ec_text_slot(&b, ec_pte_schema(), HELD);
  const size_t count = ec_text_find(&b, ec_pte_schema(), HELD ".sizes");
  EC_CHECK_OK(t, verify_copy(&b, b.size, ec_pte_schema(), &err), &err);
  poke32(&b, count, UINT32_MAX);
  EC_CHECK_FAILS(t, verify_copy(&b, b.size, ec_pte_schema(), &err), &err, EC_INVALID_PROGRAM,
                 "test: execution_plan[0].values[0].val.sizes: vector of 4294967295 items of 4 "
                 "bytes does not fit into 8 bytes");
  poke32(&b, count, 2);
  poke32(&b, held, 0);
  EC_CHECK_FAILS(t, verify_copy(&b, b.size, ec_pte_schema(), &err), &err, EC_INVALID_PROGRAM,
                 "execution_plan[0].values[0].val: offset 0 points to itself");
  poke32(&b, held, UINT32_MAX);
  EC_CHECK_FAILS(t, verify_copy(&b, b.size, ec_pte_schema(), &err), &err, EC_INVALID_PROGRAM,
                 "execution_plan[0].values[0].val: offset 4294967295 at");
  poke32(&b, value, 0x7fffffff);
  EC_CHECK_FAILS(t, verify_copy(&b, b.size, ec_pte_schema(), &err), &err, EC_INVALID_PROGRAM,
                 "execution_plan[0].values[0]: vtable of EValue at offset -");
  poke32(&b, 0, 3);
  EC_CHECK_FAILS(t, verify_copy(&b, b.size, ec_pte_schema(), &err), &err, EC_INVALID_PROGRAM,
                 "test: offset 3 points to itself");
  EC_CHECK(t, verify_copy(&b, b.size, ec_pte_schema(), NULL) == EC_INVALID_PROGRAM);
}

/* A table may be larger than its vtable says, as those of flatbuffers 25.2.10 for Python are. */
void ec_test_fb_shared_vtables(ec_test *t) {
  EC_BUILD(b);
  ec_error err = {0};
  build_tiny(&b);
  const size_t table = ec_text_find(&b, ec_pte_schema(), HELD);
  const size_t vtable = table - ec_read_u32(b.data + table);
  const size_t sizes = ec_text_slot(&b, ec_pte_schema(), HELD ".sizes");
  ec_fb_poke(&b, vtable + 2, 4, 2); /* the size without fields */
  EC_CHECK_OK(t, verify_copy(&b, b.size, ec_pte_schema(), &err), &err);
  for (size_t slot = vtable + 4;; slot += 2)
    if (table + (size_t)(b.data[slot] | b.data[slot + 1] << 8) == sizes) {
      ec_fb_poke(&b, slot, 0xfff0, 2);
      break;
    }
  EC_CHECK_FAILS(t, verify_copy(&b, b.size, ec_pte_schema(), &err), &err, EC_INVALID_PROGRAM,
                 "values[0].val.sizes: 4 bytes at offset 65520 of the table at ");
}

/* A root table with a vtable of these bytes; 8 bytes are the smallest FlatBuffer. */
static ec_status verify_vtable(uint16_t bytes, ec_error *err) {
  const ec_fb_schema empty = {"Empty", NULL, 0};
  uint8_t data[16] = {[0] = 8, [8] = 4}; /* root at 8, its vtable 4 bytes before it */
  memcpy(data + 4, &bytes, sizeof bytes);
  return ec_fb_verify(data, sizeof data, &empty, "test", err);
}

void ec_test_fb_vtable_sizes(ec_test *t) {
  static const uint16_t wrong[] = {0, 2, 3, 5, 11, 13, 14, 0xfffe};
  const ec_fb_schema empty = {"Empty", NULL, 0};
  ec_error err = {0};
  for (uint16_t bytes = 4; bytes <= 12; bytes += 2) /* 12: to the end */
    EC_CHECK_OK(t, verify_vtable(bytes, &err), &err);
  for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
    EC_CHECK_FAILS(t, verify_vtable(wrong[i], &err), &err, EC_INVALID_PROGRAM, "impossible size");
  const uint8_t least[8] = {[0] = 4, [2] = 4}; /* the table's offset leads to the root's bytes */
  EC_CHECK_FAILS(t, ec_fb_verify(least, 7, &empty, "test", &err), &err, EC_INVALID_PROGRAM,
                 "cannot have 7 bytes");
  ec_fb_verify(least, 8, &empty, "test", &err);
  EC_CHECK(t, !strstr(err.message, "cannot have"));
}

static const ec_fb_schema wide_leaf = {"Leaf", NULL, 0};
static const ec_fb_schema *const wide_leaves[] = {&wide_leaf};
static const ec_fb_field wide_fields[] = {{"items", 0, EC_FB_TABLES, 0, wide_leaves, 1}};
static const ec_fb_schema wide_schema = {"Wide", wide_fields, 1};

/* One reference more than tables may be visited, all to the same one. */
void ec_test_fb_too_many_tables(ec_test *t) {
  const size_t count = EC_MAX_FB_TABLES, capacity = 4 * count + 4096;
  ec_error err = {0};
  ec_fb_writer w = {.data = calloc(1, capacity), .capacity = capacity};
  EC_CHECK(t, w.data);
  if (!w.data) return;
  w.size = 8;
  ec_fb_slot field = {.id = 0, .size = 4};
  ec_fb_link(&w, 0, ec_fb_put_table(&w, &field, 1));
  const size_t items = ec_fb_put_vector(&w, NULL, count, 4);
  ec_fb_link(&w, field.at, items);
  const size_t leaf = ec_fb_put_table(&w, NULL, 0);
  for (size_t i = 0; i < count; i++) ec_fb_link(&w, items + 4 + 4 * i, leaf);
  EC_CHECK(t, !w.failed);
  EC_CHECK_FAILS(t, ec_fb_verify(w.data, w.size, &wide_schema, "test", &err), &err,
                 EC_INVALID_PROGRAM, "items[3999999]: more than 4000000 tables");
  ec_fb_poke(&w, items, count - 1, 4); /* with the root as many as allowed */
  EC_CHECK_OK(t, ec_fb_verify(w.data, w.size, &wide_schema, "test", &err), &err);
  free(w.data);
}

/* A path that is longer than a message is cut off. */
void ec_test_fb_long_path(ec_test *t) {
  static char name[600];
  EC_BUILD(w);
  ec_error err = {0};
  memset(name, 'n', sizeof name - 1);
  const ec_fb_field inner = {"inner", 0, EC_FB_STRING, 0, NULL, 0};
  const ec_fb_schema leaf = {"Leaf", &inner, 1}, *const leaves[] = {&leaf};
  const ec_fb_field outer = {name, 0, EC_FB_TABLE, 0, leaves, 1};
  const ec_fb_schema schema = {"Outer", &outer, 1};
  ec_fb_slot top = {.id = 0, .size = 4}, below = {.id = 0, .size = 4, .value = 1};
  w.size = 8;
  ec_fb_link(&w, 0, ec_fb_put_table(&w, &top, 1));
  ec_fb_link(&w, top.at, ec_fb_put_table(&w, &below, 1));
  EC_CHECK_FAILS(t, ec_fb_verify(w.data, w.size, &schema, "test", &err), &err, EC_INVALID_PROGRAM,
                 "nnn: offset 1 points to itself");
}

/* Unknown types are ignored; absent values and absent types are valid. */
void ec_test_fb_unions(ec_test *t) {
  EC_BUILD(b);
  ec_error err = {0};
  build_tiny(&b);
  const size_t type = ec_text_slot(&b, ec_pte_schema(), VALUE ".val_type");
  const size_t held = ec_text_slot(&b, ec_pte_schema(), HELD);
  b.data[type] = 200;
  poke32(&b, held, UINT32_MAX);
  EC_CHECK_OK(t, verify_copy(&b, b.size, ec_pte_schema(), &err), &err);
  b.data[type] = 0;
  EC_CHECK_OK(t, verify_copy(&b, b.size, ec_pte_schema(), &err), &err);
  const ec_fb_table value = b.data + ec_text_find(&b, ec_pte_schema(), VALUE);
  uint8_t *slot = b.data + (value - b.data) - (int32_t)ec_read_u32(value) + 4;
  const uint8_t first = *slot;
  *slot = 3; /* the type is not after the table's first four bytes */
  EC_CHECK_FAILS(t, verify_copy(&b, b.size, ec_pte_schema(), &err), &err, EC_INVALID_PROGRAM,
                 "1 bytes at offset 3 of the table");
  *slot = first;
  b.data[type] = EC_PTE_INT;
  EC_CHECK_FAILS(t, verify_copy(&b, b.size, ec_pte_schema(), &err), &err, EC_INVALID_PROGRAM,
                 "val");
  ec_text_drop(&b, ec_pte_schema(), HELD);
  EC_CHECK_OK(t, verify_copy(&b, b.size, ec_pte_schema(), &err), &err);
}

/* Vectors whose slots all point to one table multiply work, but not bytes: they are refused. */
void ec_test_fb_shared_tables(ec_test *t) {
  EC_BUILD(b);
  ec_error err = {0};
  build(&b, ec_pte_schema(), "{execution_plan: [{operators: [{}*500]}*500]}");
  EC_CHECK_FAILS(t, verify_copy(&b, b.size, ec_pte_schema(), &err), &err, EC_INVALID_PROGRAM,
                 "add up to more than 4 times");
}

static const ec_fb_field strings_fields[] = {{"names", 0, EC_FB_STRINGS, 0, NULL, 0}};
static const ec_fb_schema strings_schema = {"Strings", strings_fields, 1};

void ec_test_fb_strings_vector(ec_test *t) {
  EC_BUILD(b);
  ec_error err = {0};
  build(&b, &strings_schema, "{names: ['abc'*2]}");
  const size_t text = ec_text_find(&b, &strings_schema, "names[1]");
  EC_CHECK_OK(t, verify_copy(&b, b.size, &strings_schema, &err), &err);
  b.data[text + 4 + 3] = 'd';
  EC_CHECK_FAILS(t, verify_copy(&b, b.size, &strings_schema, &err), &err, EC_INVALID_PROGRAM,
                 "names[0]: string of 3 bytes at offset");
  b.data[text] = 4; /* its NUL would be beyond the end */
  EC_CHECK_FAILS(t, verify_copy(&b, b.size, &strings_schema, &err), &err, EC_INVALID_PROGRAM,
                 "is not NUL-terminated");
  const size_t names = ec_text_find(&b, &strings_schema, "names");
  ec_fb_poke(&b, names + 8, 2, 4);
  b.data[text] = 3;
  b.data[text + 4 + 3] = 0;
  EC_CHECK_FAILS(t, verify_copy(&b, b.size, &strings_schema, &err), &err, EC_INVALID_PROGRAM,
                 "names[1]: offset 2 points to itself");
  ec_fb_poke(&b, names, UINT32_MAX, 4);
  EC_CHECK_FAILS(t, verify_copy(&b, b.size, &strings_schema, &err), &err, EC_INVALID_PROGRAM,
                 "names: vector of 4294967295 items");
  EC_CHECK_FAILS(t, ec_fb_verify(b.data, EC_MAX_BYTES + 1, &strings_schema, "it", &err), &err,
                 EC_INVALID_PROGRAM, "cannot have");
  build(&b, &strings_schema, "{names: ['abc'*2]}");
  EC_CHECK_OK(t, ec_fb_verify(b.data, EC_MAX_BYTES, &strings_schema, "it", &err), &err);
}

static const ec_fb_schema nested_schema;
static const ec_fb_schema *const nested_tables[] = {&nested_schema};
static const ec_fb_field nested_fields[] = {{"next", 0, EC_FB_TABLE, 0, nested_tables, 1}};
static const ec_fb_schema nested_schema = {"Nested", nested_fields, 1};

static size_t nest(ec_fb_writer *b, unsigned depth) {
  char text[2048];
  size_t at = 0;
  for (unsigned i = 1; i < depth; i++) at += (size_t)sprintf(text + at, "{next");
  text[at++] = '{';
  memset(text + at, '}', depth);
  text[at + depth] = '\0';
  build(b, &nested_schema, text);
  return b->size;
}

void ec_test_fb_depth(ec_test *t) {
  EC_BUILD(b);
  ec_error err = {0};
  EC_CHECK_OK(t, verify_copy(&b, nest(&b, 64), &nested_schema, &err), &err);
  EC_CHECK_FAILS(t, verify_copy(&b, nest(&b, 65), &nested_schema, &err), &err, EC_INVALID_PROGRAM,
                 "nested more than 64 deep");
  EC_CHECK_FAILS(t, verify_copy(&b, nest(&b, 200), &nested_schema, &err), &err,
                 EC_INVALID_PROGRAM, "next.next.next");
}
