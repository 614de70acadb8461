/* format/bpte.c: bundled programs, whole and damaged. */
#include <stdlib.h>

#include "format/bpte.h"
#include "testing/sample.h"
#include "testing/test.h"

static const ec_fb_schema *child(const ec_fb_schema *s, unsigned id, size_t which) {
  return ec_schema_child(s, id, which);
}

/* One suite with one case: a float32 tensor (2, 3) in column order and an int, and no expectation.
 * Returns where the tensor's table is. */
static size_t build(ec_build *b) {
  const ec_fb_schema *s = ec_bpte_schema();
  const ec_fb_schema *suite = child(s, EC_BPTE_BundledProgram_method_test_suites, 0);
  const ec_fb_schema *one = child(suite, EC_BPTE_BundledMethodTestSuite_test_cases, 0);
  const ec_fb_schema *value = child(one, EC_BPTE_BundledMethodTestCase_inputs, 0);
  const float items[6] = {1, 2, 3, 4, 5, 6};
  *b = (ec_build){.size = 8};
  memcpy(b->data + 4, "BP08", 4);
  size_t root = ec_build_table(b, s);
  ec_build_link(b, 0, root);
  ec_build_vector(b, root, EC_BPTE_BundledProgram_program, "program", 7, 1);
  size_t at = ec_build_one(b, root, EC_BPTE_BundledProgram_method_test_suites, suite);
  ec_build_string(b, at, EC_BPTE_BundledMethodTestSuite_method_name, "forward");
  at = ec_build_one(b, at, EC_BPTE_BundledMethodTestSuite_test_cases, one);
  ec_build_drop(b, at, EC_BPTE_BundledMethodTestCase_expected_outputs);
  size_t slot = ec_build_slots(b, at, EC_BPTE_BundledMethodTestCase_inputs, 2);
  at = ec_build_table(b, value);
  ec_build_link(b, slot + 4, at);
  ec_build_scalar(b, at, EC_BPTE_Value_val_type, EC_BPTE_INT, 1);
  size_t number = ec_build_child(b, at, EC_BPTE_Value_val,
                                 child(value, EC_BPTE_Value_val, EC_BPTE_INT));
  ec_build_scalar(b, number, EC_BPTE_Int_int_val, 7, 8);
  at = ec_build_table(b, value);
  ec_build_link(b, slot, at);
  ec_build_scalar(b, at, EC_BPTE_Value_val_type, EC_BPTE_TENSOR, 1);
  size_t tensor = ec_build_child(b, at, EC_BPTE_Value_val,
                                 child(value, EC_BPTE_Value_val, EC_BPTE_TENSOR));
  ec_build_scalar(b, tensor, EC_BPTE_Tensor_scalar_type, EC_FLOAT32, 1);
  ec_build_vector(b, tensor, EC_BPTE_Tensor_sizes, (int32_t[]){2, 3}, 2, 4);
  ec_build_vector(b, tensor, EC_BPTE_Tensor_dim_order, (uint8_t[]){1, 0}, 2, 1);
  ec_build_vector(b, tensor, EC_BPTE_Tensor_data, items, sizeof items, 1);
  return tensor;
}

/* Opens an exact copy, so that a sanitizer sees reads behind its end, and reads everything. */
static ec_status open_all(const ec_build *b, size_t size, ec_error *err) {
  ec_bpte file;
  uint8_t *copy = malloc(size ? size : 1);
  if (!copy) abort();
  memcpy(copy, b->data, size);
  ec_status status = ec_bpte_open(&file, copy, size, err);
  if (status == EC_OK) ec_sample_read_all(file.root, ec_bpte_schema());
  free(copy);
  return status;
}

void ec_test_bpte_every_byte(ec_test *t) {
  ec_build b;
  ec_error err = {0};
  size_t refused = 0;
  build(&b);
  EC_CHECK_OK(t, open_all(&b, b.size, &err), &err);
  for (size_t size = 0; size < b.size; size++)
    EC_CHECK(t, open_all(&b, size, &err) != EC_OK && err.message[0]);
  for (size_t at = 0; at < b.size; at++) {
    uint8_t whole = b.data[at];
    for (unsigned bit = 0; bit < 8; bit++) {
      b.data[at] = (uint8_t)(whole ^ 1u << bit);
      refused += open_all(&b, b.size, &err) != EC_OK;
    }
    b.data[at] = whole;
  }
  EC_CHECK(t, refused > b.size);
  memcpy(b.data + 4, "BP07", 4);
  EC_CHECK_FAILS(t, open_all(&b, b.size, &err), &err, EC_INVALID_PROGRAM, "'BP07'");
  memcpy(b.data + 4, "ET12", 4);
  EC_CHECK_FAILS(t, open_all(&b, b.size, &err), &err, EC_INVALID_PROGRAM, "a .pte program");
}

static ec_status read_with(size_t tensor, unsigned id, size_t skip, uint64_t value, ec_build *b,
                           ec_error *err) {
  ec_bpte_tensor out;
  build(b);
  size_t at = ec_build_field(b, tensor, id);
  if (skip) at += ec_read_u32(b->data + at) + skip; /* inside the vector */
  ec_sample_poke(b, at, value, 1);
  return ec_bpte_read_tensor(b->data + tensor, &out, err);
}

void ec_test_bpte_tensors(ec_test *t) {
  ec_build b;
  ec_error err = {0};
  ec_bpte_tensor out;
  size_t tensor = build(&b);
  EC_CHECK_OK(t, ec_bpte_read_tensor(b.data + tensor, &out, &err), &err);
  EC_CHECK(t, out.rank == 2 && out.sizes[1] == 3 && out.dim_order[0] == 1 && out.data.size == 24);
  EC_CHECK_FAILS(t, read_with(tensor, EC_BPTE_Tensor_scalar_type, 0, 99, &b, &err), &err,
                 EC_NOT_SUPPORTED, "scalar type 99");
  EC_CHECK_FAILS(t, read_with(tensor, EC_BPTE_Tensor_sizes, 4, 5, &b, &err), &err,
                 EC_INVALID_PROGRAM, "24 bytes of data, the sizes need 60");
  EC_CHECK_FAILS(t, read_with(tensor, EC_BPTE_Tensor_sizes, 7, 0x80, &b, &err), &err,
                 EC_INVALID_PROGRAM, "size 0 is -");
  EC_CHECK_FAILS(t, read_with(tensor, EC_BPTE_Tensor_dim_order, 4, 0, &b, &err), &err,
                 EC_INVALID_PROGRAM, "no permutation");
  EC_CHECK_FAILS(t, read_with(tensor, EC_BPTE_Tensor_dim_order, 4, 2, &b, &err), &err,
                 EC_INVALID_PROGRAM, "no permutation");
}
