/* format/bpte.c: bundled programs, intact and damaged. */
#include <stdio.h>
#include <stdlib.h>

#include "format/bpte.h"
#include "testing/sample.h"
#include "testing/test.h"

/* One suite with one case: a float32 tensor (2, 3) in column order and an int, no expectation. */
static const char FILE_TEXT[] =
    "{program: 'program', method_test_suites: [{method_name: 'forward', test_cases: [{inputs: ["
    "  {val: Tensor {scalar_type: 6, sizes: [2 3], dim_order: [1 0],"
    "                data: '123456789012345678901234'}},"
    "  {val: Int {int_val: 7}}]}]}]}";
#define TENSOR "method_test_suites[0].test_cases[0].inputs[0].val"

static void build(ec_fb_writer *b) {
  ec_build_begin(b, 8);
  memcpy(b->data + 4, "BP08", 4);
  ec_text_build(b, ec_bpte_schema(), FILE_TEXT);
}

/* Opens an exact copy, so that a sanitizer detects overreads, and reads everything. */
static ec_status open_all(const ec_fb_writer *b, size_t size, ec_error *err) {
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
  EC_BUILD(b);
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

static ec_status read_tensor(const ec_fb_writer *b, ec_bpte_tensor *out, ec_error *err) {
  return ec_bpte_read_tensor(b->data + ec_text_find(b, ec_bpte_schema(), TENSOR), out, err);
}

/* With another number at a path. */
static ec_status read_with(const char *path, uint64_t value, ec_error *err) {
  EC_BUILD(b);
  ec_bpte_tensor out;
  build(&b);
  ec_text_set(&b, ec_bpte_schema(), path, value);
  return read_tensor(&b, &out, err);
}

void ec_test_bpte_tensors(ec_test *t) {
  EC_BUILD(b);
  ec_error err = {0};
  ec_bpte_tensor out;
  build(&b);
  EC_CHECK_OK(t, read_tensor(&b, &out, &err), &err);
  EC_CHECK(t, out.rank == 2 && out.sizes[1] == 3 && out.dim_order[0] == 1 && out.data.size == 24);
  EC_CHECK_FAILS(t, read_with(TENSOR ".scalar_type", 99, &err), &err, EC_NOT_SUPPORTED,
                 "scalar type 99");
  EC_CHECK_FAILS(t, read_with(TENSOR ".sizes[0]", 5, &err), &err, EC_INVALID_PROGRAM,
                 "24 bytes of data, the sizes need 60");
  EC_CHECK_FAILS(t, read_with(TENSOR ".sizes[0]", 0x80000000, &err), &err, EC_INVALID_PROGRAM,
                 "size 0 is -");
  EC_CHECK_FAILS(t, read_with(TENSOR ".dim_order[0]", 0, &err), &err, EC_INVALID_PROGRAM,
                 "not a permutation");
  EC_CHECK_FAILS(t, read_with(TENSOR ".dim_order[0]", 2, &err), &err, EC_INVALID_PROGRAM,
                 "not a permutation");
}

/* A tensor with these sizes, dimension order and data. */
static ec_status read_shape_of(const char *shape, ec_bpte_tensor *out, ec_error *err) {
  EC_BUILD(b);
  char text[512];
  snprintf(text, sizeof text,
           "{program: 'p', method_test_suites: [{method_name: 'f', test_cases: [{inputs: ["
           "{val: Tensor {scalar_type: 6, %s}}]}]}]}",
           shape);
  ec_build_begin(&b, 8);
  ec_text_build(&b, ec_bpte_schema(), text);
  return read_tensor(&b, out, err);
}

void ec_test_bpte_shapes(ec_test *t) {
  ec_error err = {0};
  ec_bpte_tensor out;
  EC_CHECK_OK(t, read_shape_of("sizes: [1 2], data: '12345678'", &out, &err), &err);
  EC_CHECK(t, out.rank == 2 && out.dim_order[0] == 0 && out.dim_order[1] == 1);
  EC_CHECK_OK(t, read_shape_of("sizes: [2147483647 2147483647 2147483647 0]", &out, &err), &err);
  EC_CHECK(t, out.rank == 4 && out.data.size == 0);
  EC_CHECK_OK(t, read_shape_of("sizes: [0 5]", &out, &err), &err);
  EC_CHECK_FAILS(t, read_shape_of("sizes: [0], data: '1234'", &out, &err), &err,
                 EC_INVALID_PROGRAM, "4 bytes of data, the sizes need 0");
  EC_CHECK_FAILS(t, read_shape_of("sizes: [2147483647 2147483647 2147483647 2147483647], data: '1'",
                                  &out, &err),
                 &err, EC_INVALID_PROGRAM, "the sizes need more than 1");
  EC_CHECK_FAILS(t, read_shape_of("sizes: [1 1], dim_order: [0]", &out, &err), &err,
                 EC_INVALID_PROGRAM, "2 sizes, but 1 entries");
  EC_CHECK_FAILS(t, read_shape_of("sizes: [1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1]", &out, &err), &err,
                 EC_NOT_SUPPORTED, "rank 17");
  EC_CHECK_OK(
      t, read_shape_of("sizes: [1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1], data: '1234'", &out, &err), &err);
}
