/* format/fb.c: after the verifier accepts a field of a table, of each type, the accessors read it
 * inside the buffer, which has any size and content. By induction over tables, which the accessors
 * reach only in this way, that holds for the whole buffer: a table below is checked like the first
 * one (its header by `check_table`, which is what the assumptions about `t` say). */
#include "format/fb.c"
#include "proofs/prove.h"

enum {
  ID = 1,
  SMALL = 24 /* of buffers with vectors of offsets: their items are visited one by one */
};

static const ec_fb_schema leaf = {"Leaf", NULL, 0};
static const ec_fb_schema *const leaves[] = {&leaf};
static const ec_fb_schema *const members[] = {&leaf, &leaf}; /* with NULL, CBMC has no answer */

/* A buffer with a table whose header is checked. */
static verifier any_buffer(checked_table *t) {
  verifier v;
  size_t at;
  assume(v.size >= 8 && v.size <= EC_PROVED_BYTES);
  v.data = any_bytes(v.size);
  v.what = "file";
  v.err = NULL;
  assume(check_table(&v, at, &leaf, NULL, t) == EC_OK);
  return v;
}

static bool accepts(verifier *v, const checked_table *t, ec_fb_type type, uint8_t size) {
  const ec_fb_field field = {"field", ID, type, size, leaves, 1};
  return verify_field(v, t, &field, 1, NULL) == EC_OK;
}

/* Schemas have a row for the type of a union, too. */
static bool accepts_union(verifier *v, const checked_table *t) {
  const ec_fb_field type = {"type", ID - 1, EC_FB_SCALAR, 1, NULL, 0};
  const ec_fb_field value = {"value", ID, EC_FB_UNION, 0, members, 2};
  return verify_field(v, t, &type, 1, NULL) == EC_OK &&
         verify_field(v, t, &value, 1, NULL) == EC_OK;
}

/* A table that was reached has a checked header: two bytes of each size, and the fields' places. */
static void prove_header(const verifier *v, ec_fb_table table) {
  if (!table) return;
  const size_t at = (size_t)(table - v->data);
  verifier again = *v;
  checked_table t = {0};
  again.tables = 1;
  again.budget = SIZE_MAX;
  prove(check_table(&again, at, &leaf, NULL, &t) == EC_OK, "a table below has a checked header");
}

static void prove_scalar(void) {
  checked_table t = {0};
  verifier v = any_buffer(&t);
  uint8_t size;
  assume(size == 1 || size == 4 || size == 8);
  if (accepts(&v, &t, EC_FB_SCALAR, size)) (void)ec_fb_get(v.data + t.at, ID, size, 0);
}

static void prove_string(void) {
  checked_table t = {0};
  verifier v = any_buffer(&t);
  size_t at;
  if (!accepts(&v, &t, EC_FB_STRING, 0)) return;
  const char *text = ec_fb_string(v.data + t.at, ID);
  const size_t bytes = ec_fb_string_size(v.data + t.at, ID);
  if (!text) return;
  assume(at <= bytes);
  const char byte = text[at];
  prove(at < bytes || byte == 0, "a string ends with NUL");
}

static void prove_vector(void) {
  checked_table t = {0};
  verifier v = any_buffer(&t);
  uint32_t i;
  if (!accepts(&v, &t, EC_FB_VECTOR, 8)) return;
  const ec_fb_vec items = ec_fb_vector(v.data + t.at, ID);
  if (i < items.count) (void)ec_fb_vec_u64(items, i);
}

static void prove_child(void) {
  checked_table t = {0};
  verifier v = any_buffer(&t);
  if (accepts(&v, &t, EC_FB_TABLE, 0)) prove_header(&v, ec_fb_child(v.data + t.at, ID));
}

static void prove_union(void) {
  checked_table t = {0};
  verifier v = any_buffer(&t);
  if (accepts_union(&v, &t)) prove_header(&v, ec_fb_union(v.data + t.at, ID, 1));
}

static void prove_items(ec_fb_type type) {
  checked_table t = {0};
  verifier v = any_buffer(&t);
  uint32_t i;
  assume(v.size <= SMALL);
  if (!accepts(&v, &t, type, 0)) return;
  const ec_fb_vec items = ec_fb_vector(v.data + t.at, ID);
  if (i >= items.count) return;
  if (type == EC_FB_TABLES) prove_header(&v, ec_fb_vec_table(items, i));
  else (void)*ec_fb_vec_string(items, i);
}

static void prove_strings(void) { prove_items(EC_FB_STRINGS); }
static void prove_tables(void) { prove_items(EC_FB_TABLES); }

int main(void) { EC_PROVE(); }
