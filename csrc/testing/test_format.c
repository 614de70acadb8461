/* format/: headers, segments, constants, named data and sources. */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "core/alloc.h"
#include "format/named_data.h"
#include "format/source.h"
#include "testing/alloc_fail.h"
#include "testing/sample.h"
#include "testing/test.h"

static ec_status open_size(const ec_build *b, size_t size, ec_error *err) {
  ec_pte pte;
  uint8_t *copy = malloc(size ? size : 1);
  if (!copy) abort();
  memcpy(copy, b->data, size);
  ec_status status = ec_pte_open(&pte, copy, size, EC_VERIFY_INTERNAL_CONSISTENCY, err);
  free(copy);
  return status;
}

void ec_test_pte_header(ec_test *t) {
  ec_build b;
  ec_error err = {0};
  ec_pte pte;
  ec_sample_pte(&b);
  EC_CHECK_OK(t, ec_pte_open(&pte, b.data, b.size, EC_VERIFY_MINIMAL, &err), &err);
  EC_CHECK(t, pte.header_length == 32 && pte.segment_base == b.size - EC_SAMPLE_SEGMENTS);
  ec_sample_poke(&b, 12, 48, 4); /* fields of the future */
  EC_CHECK_OK(t, open_size(&b, b.size, &err), &err);
  ec_sample_poke(&b, 12, 24, 4); /* without segment_data_size, which is then not looked at */
  ec_sample_poke(&b, 32, UINT64_MAX, 8);
  EC_CHECK_OK(t, ec_pte_open(&pte, b.data, b.size, EC_VERIFY_MINIMAL, &err), &err);
  EC_CHECK(t, pte.segment_data_size == 0);
  ec_sample_poke(&b, 12, 23, 4);
  EC_CHECK_FAILS(t, open_size(&b, b.size, &err), &err, EC_INVALID_PROGRAM, "23 bytes");
  memcpy(b.data + 8, "eh01", 4); /* no header that is known: the whole file is the program */
  EC_CHECK_FAILS(t, open_size(&b, b.size, &err), &err, EC_INVALID_PROGRAM, "no segments");
  ec_sample_pte(&b);
  ec_sample_poke(&b, 0, 4, 4);
  EC_CHECK_FAILS(t, open_size(&b, b.size, &err), &err, EC_INVALID_PROGRAM, "root table at 4");
  ec_sample_poke(&b, 0, ec_sample_pte_program_size(&b) - 3, 4);
  EC_CHECK_FAILS(t, open_size(&b, b.size, &err), &err, EC_INVALID_PROGRAM, "root table at");
  ec_sample_pte(&b);
  b.size += 100; /* padding behind the segments */
  EC_CHECK_OK(t, open_size(&b, b.size, &err), &err);
}

void ec_test_pte_other_files(ec_test *t) {
  static const struct {
    size_t at;
    const char *magic, *says;
  } rows[] = {{4, "ET11", "found identifier 'ET11', expected 'ET12'"},
              {4, "FT01", ".ptd file"},
              {4, "BP08", "bundled program"},
              {8, "ED00", "ETDump"},
              {0, "PK\003\004", "zip"},
              {0, "version https://git-lfs.github.com/spec/v1\n", "Git LFS"},
              {4, "ABCD", "found identifier 'ABCD'"},
              {4, "\001\002\003\004", "no identifier that is known"}};
  ec_error err = {0};
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    ec_build b = {.size = 200};
    memcpy(b.data + rows[i].at, rows[i].magic, strlen(rows[i].magic));
    EC_CHECK_FAILS(t, open_size(&b, 200, &err), &err, EC_INVALID_PROGRAM, rows[i].says);
    EC_CHECK_FAILS(t, open_size(&b, 50, &err), &err, EC_INVALID_ARGUMENT, rows[i].says);
  }
  ec_build b = {{0}, 0};
  EC_CHECK_FAILS(t, open_size(&b, 3, &err), &err, EC_INVALID_ARGUMENT, "3 bytes are too few");
  ec_sample_pte(&b);
  EC_CHECK_FAILS(t, open_size(&b, 63, &err), &err, EC_INVALID_ARGUMENT, "was cut off");
}

/* Sums that would wrap. */
void ec_test_pte_huge_numbers(ec_test *t) {
  static const uint64_t huge[] = {UINT64_MAX, UINT64_MAX - 7, (uint64_t)1 << 63, INT64_MAX,
                                  UINT32_MAX, EC_BUILD_BYTES + 1};
  ec_build b;
  ec_error err = {0};
  for (size_t i = 0; i < sizeof huge / sizeof huge[0]; i++)
    for (size_t at = 16; at <= 32; at += 8) {
      ec_sample_pte(&b);
      ec_sample_poke(&b, at, huge[i], 8);
      EC_CHECK_FAILS(t, open_size(&b, b.size, &err), &err, EC_INVALID_PROGRAM, "header states");
    }
  ec_sample_pte(&b);
  EC_CHECK_FAILS(t, open_size(&b, b.size - 1, &err), &err, EC_INVALID_PROGRAM, "cut off");
  ec_sample_poke(&b, 16, 0, 8);
  EC_CHECK_FAILS(t, open_size(&b, b.size, &err), &err, EC_INVALID_PROGRAM, "0 bytes of program");
}

static ec_status segment_with(ec_build *b, uint64_t index, uint64_t offset, uint64_t size,
                              ec_bytes *out, ec_error *err) {
  ec_pte pte;
  EC_TRY(ec_pte_open(&pte, b->data, b->size, EC_VERIFY_MINIMAL, err));
  ec_fb_vec all = ec_fb_vector(pte.root, EC_PTE_Program_segments);
  size_t table = (size_t)(ec_fb_vec_table(all, 1) - b->data);
  ec_build_scalar(b, table, EC_PTE_DataSegment_offset, offset, 8);
  ec_build_scalar(b, table, EC_PTE_DataSegment_size, size, 8);
  return ec_pte_segment(&pte, index, out, err);
}

void ec_test_pte_segments(ec_test *t) {
  ec_build b;
  ec_error err = {0};
  ec_bytes s;
  ec_sample_pte(&b);
  EC_CHECK_OK(t, segment_with(&b, 1, 32, 16, &s, &err), &err);
  EC_CHECK(t, s.size == 16 && s.data[0] == 32);
  EC_CHECK_OK(t, segment_with(&b, 1, 64, 0, &s, &err), &err);
  EC_CHECK_OK(t, segment_with(&b, 2, 32, 16, &s, &err), &err);
  EC_CHECK(t, s.size == 0);
  EC_CHECK_FAILS(t, segment_with(&b, 3, 32, 16, &s, &err), &err, EC_INVALID_PROGRAM, "3 segments");
  EC_CHECK_FAILS(t, segment_with(&b, UINT64_MAX, 32, 16, &s, &err), &err, EC_INVALID_PROGRAM, "");
  EC_CHECK_FAILS(t, segment_with(&b, 1, 49, 16, &s, &err), &err, EC_INVALID_PROGRAM, "not fit");
  EC_CHECK_OK(t, segment_with(&b, 1, 65, 0, &s, &err), &err); /* empty: it needs no place */
  EC_CHECK_FAILS(t, segment_with(&b, 1, 65, 1, &s, &err), &err, EC_INVALID_PROGRAM, "not fit");
  EC_CHECK_FAILS(t, segment_with(&b, 1, UINT64_MAX, 16, &s, &err), &err, EC_INVALID_PROGRAM, "");
  EC_CHECK_FAILS(t, segment_with(&b, 1, 16, UINT64_MAX - 8, &s, &err), &err, EC_INVALID_PROGRAM,
                 "not fit");
  b.size += 32; /* behind the stated end: not inside the segments, though inside the file */
  EC_CHECK_FAILS(t, segment_with(&b, 1, 56, 16, &s, &err), &err, EC_INVALID_PROGRAM, "not fit");
  ec_sample_poke(&b, 32, 0, 8); /* nothing stated: the file's end counts */
  EC_CHECK_OK(t, segment_with(&b, 1, 56, 16, &s, &err), &err);
  ec_sample_poke(&b, 24, 0, 8);
  EC_CHECK_FAILS(t, segment_with(&b, 1, 56, 16, &s, &err), &err, EC_INVALID_PROGRAM,
                 "no segments");
}

void ec_test_pte_constants(ec_test *t) {
  ec_build b;
  ec_error err = {0};
  ec_pte pte;
  ec_bytes c;
  ec_sample_pte(&b);
  EC_CHECK_OK(t, ec_pte_open(&pte, b.data, b.size, EC_VERIFY_MINIMAL, &err), &err);
  EC_CHECK_OK(t, ec_pte_constant(&pte, 1, 16, &c, &err), &err);
  EC_CHECK(t, c.size == 16 && c.data[0] == 16);
  EC_CHECK_FAILS(t, ec_pte_constant(&pte, 1, 17, &c, &err), &err, EC_INVALID_PROGRAM,
                 "17 bytes at 16 do not fit into a segment of 32 bytes");
  EC_CHECK_FAILS(t, ec_pte_constant(&pte, 1, SIZE_MAX, &c, &err), &err, EC_INVALID_PROGRAM, "fit");
  EC_CHECK_FAILS(t, ec_pte_constant(&pte, 2, 1, &c, &err), &err, EC_INVALID_PROGRAM,
                 "data_buffer_idx 2, but the program has 2");
  EC_CHECK_OK(t, ec_pte_mutable_data(&pte, 0, 32, &c, &err), &err);
  EC_CHECK_FAILS(t, ec_pte_mutable_data(&pte, 0, 33, &c, &err), &err, EC_INVALID_PROGRAM, "fit");
  ec_fb_vec offsets = ec_fb_vector(ec_fb_child(pte.root, EC_PTE_Program_constant_segment),
                                   EC_PTE_SubsegmentOffsets_offsets);
  ec_sample_poke(&b, (size_t)(offsets.items + 8 - b.data), UINT64_MAX - 3, 8);
  EC_CHECK_FAILS(t, ec_pte_constant(&pte, 1, 16, &c, &err), &err, EC_INVALID_PROGRAM, "not fit");
  size_t segment = (size_t)(ec_fb_child(pte.root, EC_PTE_Program_constant_segment) - b.data);
  ec_build_scalar(&b, segment, EC_PTE_SubsegmentOffsets_segment_index, 9, 4);
  EC_CHECK_FAILS(t, open_size(&b, b.size, &err), &err, EC_INVALID_PROGRAM,
                 "constant_segment: segment 9");
}

void ec_test_pte_legacy_constants(ec_test *t) {
  const ec_fb_schema *s = ec_pte_schema();
  ec_build b = {.size = 8};
  ec_error err = {0};
  ec_pte pte;
  ec_bytes c;
  memcpy(b.data + 4, "ET12", 4);
  size_t root = ec_build_table(&b, s);
  ec_build_link(&b, 0, root);
  size_t buffer = ec_build_one(&b, root, EC_PTE_Program_constant_buffer,
                               ec_schema_child(s, EC_PTE_Program_constant_buffer, 0));
  ec_build_vector(&b, buffer, EC_PTE_Buffer_storage, "0123456789", 10, 1);
  ec_build_finish(&b, root, s);
  EC_CHECK_OK(t, ec_pte_open(&pte, b.data, b.size, EC_VERIFY_MINIMAL, &err), &err);
  EC_CHECK(t, pte.header_length == 0 && pte.program_size == b.size);
  EC_CHECK_OK(t, ec_pte_constant(&pte, 0, 10, &c, &err), &err);
  EC_CHECK(t, c.size == 10 && c.data[3] == '3');
  EC_CHECK_FAILS(t, ec_pte_constant(&pte, 0, 11, &c, &err), &err, EC_INVALID_PROGRAM,
                 "has 10 bytes, the tensor needs 11");
  EC_CHECK_FAILS(t, ec_pte_constant(&pte, 1, 1, &c, &err), &err, EC_INVALID_PROGRAM, "1 constants");
  EC_CHECK_FAILS(t, ec_pte_mutable_data(&pte, 0, 1, &c, &err), &err, EC_INVALID_PROGRAM,
                 "no mutable_data_segments");
  EC_CHECK_FAILS(t, open_size(&b, b.size, &err), &err, EC_INVALID_PROGRAM, "no execution_plan");
}

void ec_test_pte_delegate_data(ec_test *t) {
  ec_build b;
  ec_error err = {0};
  ec_pte pte;
  ec_bytes d;
  ec_sample_pte(&b);
  EC_CHECK_OK(t, ec_pte_open(&pte, b.data, b.size, EC_VERIFY_MINIMAL, &err), &err);
  ec_fb_table plan = ec_fb_vec_table(ec_fb_vector(pte.root, EC_PTE_Program_execution_plan), 0);
  ec_fb_table delegate = ec_fb_vec_table(ec_fb_vector(plan, EC_PTE_ExecutionPlan_delegates), 0);
  ec_fb_table ref = ec_fb_child(delegate, EC_PTE_BackendDelegate_processed);
  size_t at = (size_t)(ref - b.data);
  EC_CHECK_OK(t, ec_pte_delegate_data(&pte, ref, &d, &err), &err);
  EC_CHECK(t, d.size == 7 && !memcmp(d.data, "payload", 7));
  ec_build_scalar(&b, at, EC_PTE_BackendDelegateDataReference_index, 1, 4);
  EC_CHECK_FAILS(t, ec_pte_delegate_data(&pte, ref, &d, &err), &err, EC_INVALID_PROGRAM,
                 "backend_delegate_data[1]");
  ec_build_scalar(&b, at, EC_PTE_BackendDelegateDataReference_location, EC_PTE_DATA_SEGMENT, 1);
  EC_CHECK_OK(t, ec_pte_delegate_data(&pte, ref, &d, &err), &err);
  EC_CHECK(t, d.size == 16 && d.data[0] == 32);
  ec_build_scalar(&b, at, EC_PTE_BackendDelegateDataReference_location, 2, 1);
  EC_CHECK_FAILS(t, ec_pte_delegate_data(&pte, ref, &d, &err), &err, EC_INVALID_PROGRAM,
                 "unknown data location 2");
  EC_CHECK_FAILS(t, ec_pte_delegate_data(&pte, NULL, &d, &err), &err, EC_INVALID_PROGRAM,
                 "no processed data");
}

void ec_test_pte_truncated(ec_test *t) {
  ec_build b;
  ec_error err = {0};
  ec_sample_pte(&b);
  for (size_t size = 0; size < b.size; size++)
    EC_CHECK(t, open_size(&b, size, &err) != EC_OK && err.message[0]);
}

/* What a loader reads of a program that was opened. */
static void use_pte(const ec_pte *pte) {
  ec_bytes bytes;
  ec_sample_read_all(pte->root, ec_pte_schema());
  for (uint32_t i = 0; i < 4; i++) {
    uint64_t sum = 0;
    if (ec_pte_segment(pte, i, &bytes, NULL) == EC_OK)
      for (size_t at = 0; at < bytes.size; at++) sum += bytes.data[at];
    if (ec_pte_constant(pte, i, 16, &bytes, NULL) == EC_OK) sum += bytes.data[15];
    if (ec_pte_mutable_data(pte, i, 16, &bytes, NULL) == EC_OK) sum += bytes.data[15];
    (void)sum;
  }
}

void ec_test_pte_every_byte(ec_test *t) {
  ec_build b;
  ec_error err = {0};
  size_t refused = 0, cases = 0;
  ec_sample_pte(&b);
  uint8_t *copy = malloc(b.size);
  if (!copy) abort();
  for (size_t at = 0; at < b.size; at++)
    for (unsigned value = 0; value < 10; value++) {
      ec_pte pte;
      ec_named_map map;
      ec_arena arena = {0};
      memcpy(copy, b.data, b.size);
      copy[at] = (uint8_t)(value < 8 ? copy[at] ^ 1u << value : value == 8 ? 0xffu : 0u);
      cases++;
      if (ec_pte_open(&pte, copy, b.size, (ec_verification)(value & 1), &err) != EC_OK) {
        refused++;
        continue;
      }
      use_pte(&pte);
      ec_named_map_init(&map, &pte, NULL, 0, &arena, &err);
      ec_arena_deinit(&arena);
    }
  free(copy);
  EC_CHECK(t, refused > cases / 10 && refused < cases);
}

static void put_sizes(ec_build *b, uint32_t index, int32_t first, int32_t second) {
  const int32_t sizes[] = {first, second};
  ec_fb_vec vec = ec_fb_vector(b->data + ec_sample_value(b, index), EC_PTE_Tensor_sizes);
  memcpy(b->data + (vec.items - b->data), sizes, sizeof sizes);
}

void ec_test_pte_consistency(ec_test *t) {
  ec_build b;
  ec_error err = {0};
  ec_pte pte;
  ec_sample_pte(&b);
  put_sizes(&b, 0, 2, -1);
  EC_CHECK_FAILS(t, open_size(&b, b.size, &err), &err, EC_INVALID_PROGRAM,
                 "execution_plan[0]: values[0]: size -1 of dimension 1 is negative");
  EC_CHECK_OK(t, ec_pte_open(&pte, b.data, b.size, EC_VERIFY_MINIMAL, &err), &err);
  ec_build_scalar(&b, ec_sample_value(&b, 0), EC_PTE_Tensor_shape_dynamism, 1, 1);
  EC_CHECK_OK(t, open_size(&b, b.size, &err), &err); /* a dynamic input, as in the reference */
  ec_sample_pte(&b);
  put_sizes(&b, 1, INT32_MAX, INT32_MAX);
  EC_CHECK_FAILS(t, open_size(&b, b.size, &err), &err, EC_INVALID_PROGRAM, "values[1]: the tensor");
  ec_build_scalar(&b, ec_sample_value(&b, 1), EC_PTE_Tensor_shape_dynamism, 1, 1);
  EC_CHECK_FAILS(t, open_size(&b, b.size, &err), &err, EC_INVALID_PROGRAM, "values[1]: the tensor");
  ec_sample_pte(&b);
  ec_build_scalar(&b, ec_sample_value(&b, 1), EC_PTE_Tensor_scalar_type, 77, 1);
  EC_CHECK_FAILS(t, open_size(&b, b.size, &err), &err, EC_INVALID_PROGRAM, "scalar type 77");
  ec_sample_pte(&b);
  ec_build_drop(&b, ec_sample_value(&b, 1), EC_PTE_Tensor_sizes);
  EC_CHECK_FAILS(t, open_size(&b, b.size, &err), &err, EC_INVALID_PROGRAM, "no sizes");
  ec_sample_pte(&b);
  ec_fb_vec items = ec_fb_vector(b.data + ec_sample_value(&b, 9), EC_PTE_TensorList_items);
  size_t item = (size_t)(items.items - b.data);
  ec_sample_poke(&b, item, 11, 4);
  EC_CHECK_FAILS(t, open_size(&b, b.size, &err), &err, EC_INVALID_PROGRAM, "value 11, but there");
  ec_sample_poke(&b, item, 3, 4);
  EC_CHECK_FAILS(t, open_size(&b, b.size, &err), &err, EC_INVALID_PROGRAM, "which is no tensor");
  ec_build_drop(&b, ec_sample_value(&b, 9), EC_PTE_TensorList_items);
  EC_CHECK_FAILS(t, open_size(&b, b.size, &err), &err, EC_INVALID_PROGRAM, "no items");
}
