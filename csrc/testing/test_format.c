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

static ec_status open_size(const ec_fb_writer *b, size_t size, ec_error *err) {
  ec_pte pte;
  uint8_t *copy = malloc(size ? size : 1);
  if (!copy) abort();
  memcpy(copy, b->data, size);
  ec_status status = ec_pte_open(&pte, copy, size, EC_VERIFY_INTERNAL_CONSISTENCY, err);
  free(copy);
  return status;
}

void ec_test_pte_header(ec_test *t) {
  EC_BUILD(b);
  ec_error err = {0};
  ec_pte pte;
  ec_sample_pte(&b);
  EC_CHECK_OK(t, ec_pte_open(&pte, b.data, b.size, EC_VERIFY_MINIMAL, &err), &err);
  EC_CHECK(t, pte.header_length == 32 && pte.segment_base == b.size - EC_SAMPLE_SEGMENTS);
  ec_fb_poke(&b, 12, 48, 4); /* fields of the future */
  EC_CHECK_OK(t, open_size(&b, b.size, &err), &err);
  ec_fb_poke(&b, 12, 24, 4); /* without segment_data_size, which is then not looked at */
  ec_fb_poke(&b, 32, UINT64_MAX, 8);
  EC_CHECK_OK(t, ec_pte_open(&pte, b.data, b.size, EC_VERIFY_MINIMAL, &err), &err);
  EC_CHECK(t, pte.segment_data_size == 0);
  ec_fb_poke(&b, 12, 23, 4);
  EC_CHECK_FAILS(t, open_size(&b, b.size, &err), &err, EC_INVALID_PROGRAM, "23 bytes");
  memcpy(b.data + 8, "eh01", 4); /* an unknown header: the whole file is the program */
  EC_CHECK_FAILS(t, open_size(&b, b.size, &err), &err, EC_INVALID_PROGRAM, "no segments");
  ec_sample_pte(&b);
  ec_fb_poke(&b, 0, 4, 4);
  EC_CHECK_FAILS(t, open_size(&b, b.size, &err), &err, EC_INVALID_PROGRAM, "root table at 4");
  ec_fb_poke(&b, 0, ec_sample_pte_program_size(&b) - 3, 4);
  EC_CHECK_FAILS(t, open_size(&b, b.size, &err), &err, EC_INVALID_PROGRAM, "root table at");
  ec_sample_pte(&b);
  b.size += 100; /* padding after the segments */
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
              {4, "\001\002\003\004", "its identifier is unknown"}};
  ec_error err = {0};
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    EC_BUILD(b);
    b.size = 200;
    memcpy(b.data + rows[i].at, rows[i].magic, strlen(rows[i].magic));
    EC_CHECK_FAILS(t, open_size(&b, 200, &err), &err, EC_INVALID_PROGRAM, rows[i].says);
    EC_CHECK_FAILS(t, open_size(&b, 50, &err), &err, EC_INVALID_ARGUMENT, rows[i].says);
  }
  EC_BUILD(b);
  EC_CHECK_FAILS(t, open_size(&b, 3, &err), &err, EC_INVALID_ARGUMENT, "3 bytes are too few");
  ec_sample_pte(&b);
  EC_CHECK_FAILS(t, open_size(&b, 63, &err), &err, EC_INVALID_ARGUMENT, "was cut off");
}

/* Sums that would wrap around. */
void ec_test_pte_huge_numbers(ec_test *t) {
  static const uint64_t huge[] = {UINT64_MAX, UINT64_MAX - 7, (uint64_t)1 << 63, INT64_MAX,
                                  UINT32_MAX, EC_BUILD_BYTES + 1};
  EC_BUILD(b);
  ec_error err = {0};
  for (size_t i = 0; i < sizeof huge / sizeof huge[0]; i++)
    for (size_t at = 16; at <= 32; at += 8) {
      ec_sample_pte(&b);
      ec_fb_poke(&b, at, huge[i], 8);
      EC_CHECK_FAILS(t, open_size(&b, b.size, &err), &err, EC_INVALID_PROGRAM, "header states");
    }
  ec_sample_pte(&b);
  EC_CHECK_FAILS(t, open_size(&b, b.size - 1, &err), &err, EC_INVALID_PROGRAM, "cut off");
  ec_fb_poke(&b, 16, 0, 8);
  EC_CHECK_FAILS(t, open_size(&b, b.size, &err), &err, EC_INVALID_PROGRAM, "0 bytes of program");
}

static void set_field(ec_fb_writer *b, const char *path, uint64_t value) {
  ec_text_set(b, ec_pte_schema(), path, value);
}

static ec_status segment_with(ec_fb_writer *b, uint64_t index, uint64_t offset, uint64_t size,
                              ec_bytes *out, ec_error *err) {
  ec_pte pte;
  EC_TRY(ec_pte_open(&pte, b->data, b->size, EC_VERIFY_MINIMAL, err));
  set_field(b, "segments[1].offset", offset);
  set_field(b, "segments[1].size", size);
  return ec_pte_segment(&pte, index, out, err);
}

void ec_test_pte_segments(ec_test *t) {
  EC_BUILD(b);
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
  EC_CHECK_OK(t, segment_with(&b, 1, 65, 0, &s, &err), &err); /* empty: it needs no location */
  EC_CHECK_FAILS(t, segment_with(&b, 1, 65, 1, &s, &err), &err, EC_INVALID_PROGRAM, "not fit");
  EC_CHECK_FAILS(t, segment_with(&b, 1, UINT64_MAX, 16, &s, &err), &err, EC_INVALID_PROGRAM, "");
  EC_CHECK_FAILS(t, segment_with(&b, 1, 16, UINT64_MAX - 8, &s, &err), &err, EC_INVALID_PROGRAM,
                 "not fit");
  b.size += 32; /* after the stated end: outside the segments, though inside the file */
  EC_CHECK_FAILS(t, segment_with(&b, 1, 56, 16, &s, &err), &err, EC_INVALID_PROGRAM, "not fit");
  ec_fb_poke(&b, 32, 0, 8); /* nothing stated: the file's end counts */
  EC_CHECK_OK(t, segment_with(&b, 1, 56, 16, &s, &err), &err);
  ec_fb_poke(&b, 24, 0, 8);
  EC_CHECK_FAILS(t, segment_with(&b, 1, 56, 16, &s, &err), &err, EC_INVALID_PROGRAM,
                 "no segments");
}

void ec_test_pte_constants(ec_test *t) {
  EC_BUILD(b);
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
  set_field(&b, "constant_segment.offsets[1]", UINT64_MAX - 3);
  EC_CHECK_FAILS(t, ec_pte_constant(&pte, 1, 16, &c, &err), &err, EC_INVALID_PROGRAM, "not fit");
  set_field(&b, "constant_segment.segment_index", 9);
  EC_CHECK_FAILS(t, open_size(&b, b.size, &err), &err, EC_INVALID_PROGRAM,
                 "constant_segment: segment 9");
}

void ec_test_pte_legacy_constants(ec_test *t) {
  EC_BUILD(b);
  b.size = 8;
  ec_error err = {0};
  ec_pte pte;
  ec_bytes c;
  memcpy(b.data + 4, "ET12", 4);
  ec_text_build(&b, ec_pte_schema(), "{constant_buffer: [{storage: '0123456789'}]}");
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
  b.size = 8;
  ec_text_build(&b, ec_pte_schema(), /* one offset is no constant in a segment */
                "{constant_buffer: [{}], constant_segment: {offsets: [0]}}");
  EC_CHECK_OK(t, ec_pte_open(&pte, b.data, b.size, EC_VERIFY_MINIMAL, &err), &err);
  b.size = 8;
  ec_text_build(&b, ec_pte_schema(), "{constant_buffer: [{}]}");
  EC_CHECK_OK(t, ec_pte_open(&pte, b.data, b.size, EC_VERIFY_MINIMAL, &err), &err);
  EC_CHECK_OK(t, ec_pte_constant(&pte, 0, 0, &c, &err), &err);
  EC_CHECK(t, c.size == 0 && c.data == b.data); /* without storage: anywhere in the file */
}

#define PROCESSED "execution_plan[0].delegates[0].processed"

void ec_test_pte_delegate_data(ec_test *t) {
  EC_BUILD(b);
  ec_error err = {0};
  ec_pte pte;
  ec_bytes d;
  ec_sample_pte(&b);
  EC_CHECK_OK(t, ec_pte_open(&pte, b.data, b.size, EC_VERIFY_MINIMAL, &err), &err);
  ec_fb_table ref = b.data + ec_text_find(&b, ec_pte_schema(), PROCESSED);
  EC_CHECK_OK(t, ec_pte_delegate_data(&pte, ref, &d, &err), &err);
  EC_CHECK(t, d.size == 7 && !memcmp(d.data, "payload", 7));
  ec_text_drop(&b, ec_pte_schema(), "backend_delegate_data[0].data");
  EC_CHECK_OK(t, ec_pte_delegate_data(&pte, ref, &d, &err), &err);
  EC_CHECK(t, d.size == 0 && d.data == pte.data);
  set_field(&b, PROCESSED ".index", 1);
  EC_CHECK_FAILS(t, ec_pte_delegate_data(&pte, ref, &d, &err), &err, EC_INVALID_PROGRAM,
                 "backend_delegate_data[1]");
  set_field(&b, PROCESSED ".location", EC_PTE_DATA_SEGMENT);
  EC_CHECK_OK(t, ec_pte_delegate_data(&pte, ref, &d, &err), &err);
  EC_CHECK(t, d.size == 16 && d.data[0] == 32);
  set_field(&b, PROCESSED ".location", 2);
  EC_CHECK_FAILS(t, ec_pte_delegate_data(&pte, ref, &d, &err), &err, EC_INVALID_PROGRAM,
                 "unknown data location 2");
  EC_CHECK_FAILS(t, ec_pte_delegate_data(&pte, NULL, &d, &err), &err, EC_INVALID_PROGRAM,
                 "no processed data");
}

void ec_test_pte_truncated(ec_test *t) {
  EC_BUILD(b);
  ec_error err = {0};
  ec_sample_pte(&b);
  for (size_t size = 0; size < b.size; size++)
    EC_CHECK(t, open_size(&b, size, &err) != EC_OK && err.message[0]);
}

/* The reads of a loader in an opened program. */
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
  EC_BUILD(b);
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
      ec_named_map_init(&map, &pte, NULL, 0, NULL, &arena, &err);
      ec_arena_deinit(&arena);
    }
  free(copy);
  EC_CHECK(t, refused > cases / 10 && refused < cases);
}

#define INPUT "execution_plan[0].values[0].val"
#define CONSTANT "execution_plan[0].values[1].val"
#define LIST "execution_plan[0].values[9].val"

/* Sizes that do not fit are those of inputs only. */
void ec_test_pte_wrong_inputs(ec_test *t) {
  EC_BUILD(b);
  ec_error err = {0};
  ec_sample_pte(&b);
  set_field(&b, CONSTANT ".sizes[0]", INT32_MAX);
  set_field(&b, CONSTANT ".sizes[1]", INT32_MAX);
  set_field(&b, CONSTANT ".shape_dynamism", 1);
  set_field(&b, INPUT ".shape_dynamism", 1); /* both are wrong; only inputs may be */
  set_field(&b, INPUT ".sizes[1]", UINT32_MAX);
  EC_CHECK_FAILS(t, open_size(&b, b.size, &err), &err, EC_INVALID_PROGRAM, "values[1]: the tensor");
  for (uint32_t index = UINT32_MAX; index != 1; index = index == UINT32_MAX ? 11 : 1) {
    set_field(&b, "execution_plan[0].inputs[0]", index); /* there is no such value */
    EC_CHECK_FAILS(t, open_size(&b, b.size, &err), &err, EC_INVALID_PROGRAM, "values[0]: size -1");
  }
  set_field(&b, "execution_plan[0].inputs[0]", 1);
  EC_CHECK_FAILS(t, open_size(&b, b.size, &err), &err, EC_INVALID_PROGRAM, "values[0]: size -1");
  set_field(&b, INPUT ".sizes[1]", 1);
  EC_CHECK_OK(t, open_size(&b, b.size, &err), &err); /* the constant is the input now */
  set_field(&b, "execution_plan[0].inputs[0]", 0);
  set_field(&b, CONSTANT ".sizes[1]", 3u << 29); /* more than can be indexed, less than 2^64 */
  set_field(&b, CONSTANT ".shape_dynamism", 0);
  EC_CHECK_FAILS(t, open_size(&b, b.size, &err), &err, EC_INVALID_PROGRAM, "bytes overflow");
}

void ec_test_pte_consistency(ec_test *t) {
  EC_BUILD(b);
  ec_error err = {0};
  ec_pte pte;
  ec_sample_pte(&b);
  set_field(&b, INPUT ".sizes[1]", UINT32_MAX);
  EC_CHECK_FAILS(t, open_size(&b, b.size, &err), &err, EC_INVALID_PROGRAM,
                 "execution_plan[0]: values[0]: size -1 of dimension 1 is negative");
  EC_CHECK_OK(t, ec_pte_open(&pte, b.data, b.size, EC_VERIFY_MINIMAL, &err), &err);
  set_field(&b, INPUT ".shape_dynamism", 1);
  EC_CHECK_OK(t, open_size(&b, b.size, &err), &err); /* a dynamic input, as in the reference */
  ec_sample_pte(&b);
  set_field(&b, CONSTANT ".sizes[0]", INT32_MAX);
  set_field(&b, CONSTANT ".sizes[1]", INT32_MAX);
  EC_CHECK_FAILS(t, open_size(&b, b.size, &err), &err, EC_INVALID_PROGRAM, "values[1]: the tensor");
  set_field(&b, CONSTANT ".shape_dynamism", 1);
  EC_CHECK_FAILS(t, open_size(&b, b.size, &err), &err, EC_INVALID_PROGRAM, "values[1]: the tensor");
  set_field(&b, CONSTANT ".sizes[0]", 0); /* no element, whatever the other size */
  EC_CHECK_OK(t, open_size(&b, b.size, &err), &err);
  ec_sample_pte(&b);
  set_field(&b, CONSTANT ".scalar_type", 77);
  EC_CHECK_FAILS(t, open_size(&b, b.size, &err), &err, EC_INVALID_PROGRAM, "scalar type 77");
  ec_sample_pte(&b);
  ec_text_drop(&b, ec_pte_schema(), CONSTANT ".sizes");
  EC_CHECK_FAILS(t, open_size(&b, b.size, &err), &err, EC_INVALID_PROGRAM, "no sizes");
  ec_sample_pte(&b);
  set_field(&b, LIST ".items[0]", 11);
  EC_CHECK_FAILS(t, open_size(&b, b.size, &err), &err, EC_INVALID_PROGRAM, "value 11, but there");
  set_field(&b, LIST ".items[0]", 0);
  set_field(&b, LIST ".items[1]", 11);
  EC_CHECK_FAILS(t, open_size(&b, b.size, &err), &err, EC_INVALID_PROGRAM, "item 1 is value 11");
  set_field(&b, LIST ".items[1]", 1);
  set_field(&b, LIST ".items[0]", 3);
  EC_CHECK_FAILS(t, open_size(&b, b.size, &err), &err, EC_INVALID_PROGRAM, "which is not a tensor");
  ec_text_drop(&b, ec_pte_schema(), LIST ".items");
  EC_CHECK_FAILS(t, open_size(&b, b.size, &err), &err, EC_INVALID_PROGRAM, "no items");
}
