/* format/fb.c, part by part: the verifier's checks of a table, field, offset, vector and string in
 * a buffer of any size and content. The verifier calls each with the precondition that is assumed
 * here, which the proofs before it show: an offset's target has four bytes inside. */
#include "format/fb.c"
#include "proofs/prove.h"

static const ec_fb_schema schema = {"T", NULL, 0};

static verifier any_verifier(void) {
  verifier v;
  assume(v.size >= 8 && v.size <= EC_PROVED_BYTES);
  v.data = any_bytes(v.size);
  v.what = "file";
  v.err = NULL;
  return v;
}

static void prove_table(void) {
  size_t at;
  verifier v = any_verifier();
  const verifier before = v;
  checked_table t = {0};
  if (check_table(&v, at, &schema, NULL, &t) != EC_OK) return;
  prove(t.at == at && ec_in_range(at, OFFSET_BYTES, v.size), "a table is inside");
  prove(t.vtable_bytes >= 4 && t.vtable_bytes % 2 == 0, "its vtable has a size");
  prove(ec_in_range(t.vtable, t.vtable_bytes, v.size), "its vtable is inside");
  prove(v.tables < before.tables && v.budget <= before.budget - OFFSET_BYTES, "it is charged");
}

static void prove_field(void) {
  unsigned id;
  size_t width, at;
  verifier v = any_verifier();
  checked_table t = {0};
  size_t table;
  assume(check_table(&v, table, &schema, NULL, &t) == EC_OK);
  assume(id <= UINT16_MAX && width >= 1 && width <= 8);
  if (check_field(&v, &t, id, width, NULL, &at) != EC_OK) return;
  const uint8_t *read = ec_fb_field_at(v.data + t.at, id);
  prove(at ? read == v.data + at : !read, "it is the one that the accessor reads");
  if (!at) return;
  prove(ec_in_range(at, width, v.size), "a field is inside");
  prove(at >= t.at + OFFSET_BYTES, "it is after the offset to the vtable");
}

static void prove_offset(void) {
  size_t slot, at;
  verifier v = any_verifier();
  assume(ec_in_range(slot, OFFSET_BYTES, v.size));
  if (follow_offset(&v, slot, NULL, &at) != EC_OK) return;
  prove(ec_in_range(at, OFFSET_BYTES, v.size), "a target has four bytes inside");
  prove(at >= slot + OFFSET_BYTES, "it is after the offset");
}

static void prove_vector(void) {
  size_t at, width;
  uint32_t count;
  verifier v = any_verifier();
  assume(ec_in_range(at, OFFSET_BYTES, v.size));
  assume(width == 1 || width == 2 || width == 4 || width == 8);
  const verifier before = v;
  if (check_vector(&v, at, width, NULL, &count) != EC_OK) return;
  prove(ec_in_range(at + OFFSET_BYTES, (uint64_t)count * width, v.size), "its items are inside");
  prove(v.budget <= before.budget && before.budget - v.budget >= count * width, "it is charged");
}

static void prove_string(void) {
  size_t at;
  verifier v = any_verifier();
  assume(ec_in_range(at, OFFSET_BYTES, v.size));
  if (check_string(&v, at, NULL) != EC_OK) return;
  const size_t bytes = ec_read_u32(v.data + at);
  prove(ec_in_range(at + OFFSET_BYTES, bytes + 1, v.size), "a string is inside, with its NUL");
  prove(v.data[at + OFFSET_BYTES + bytes] == 0, "it ends with NUL");
}

int main(void) { EC_PROVE(); }
