/* format/: .ptd files, named data, sources, and all of them with failing allocations. */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "core/alloc.h"
#include "core/limits.h"
#include "format/named_data.h"
#include "format/source.h"
#include "testing/alloc_fail.h"
#include "testing/sample.h"
#include "testing/test.h"

static ec_status open_ptd(const ec_fb_writer *b, size_t size, ec_error *err) {
  ec_ptd ptd;
  ec_bytes bytes;
  uint8_t *copy = malloc(size ? size : 1);
  if (!copy) abort();
  memcpy(copy, b->data, size);
  ec_status status = ec_ptd_open(&ptd, copy, size, err);
  if (status == EC_OK) {
    ec_sample_read_all(ptd.root, ec_ptd_schema());
    for (uint32_t i = 0; i < 4; i++) ec_ptd_segment(&ptd, i, &bytes, NULL);
    ec_arena arena = {0};
    ec_named_map map;
    ec_named_map_init(&map, NULL, &ptd, 1, NULL, &arena, NULL);
    ec_arena_deinit(&arena);
  }
  free(copy);
  return status;
}

void ec_test_ptd_header(ec_test *t) {
  EC_BUILD(b);
  ec_error err = {0};
  ec_sample_ptd(&b);
  EC_CHECK_OK(t, open_ptd(&b, b.size, &err), &err);
  for (size_t size = 0; size < b.size; size++)
    EC_CHECK(t, open_ptd(&b, size, &err) == EC_INVALID_EXTERNAL_DATA && err.message[0]);
  EC_CHECK_FAILS(t, open_ptd(&b, 63, &err), &err, EC_INVALID_EXTERNAL_DATA, "cut off");
  for (size_t at = 16; at <= 40; at += 8) {
    ec_sample_ptd(&b);
    ec_fb_poke(&b, at, UINT64_MAX - 8, 8);
    EC_CHECK_FAILS(t, open_ptd(&b, b.size, &err), &err, EC_INVALID_EXTERNAL_DATA, "header states");
  }
  ec_sample_ptd(&b);
  ec_fb_poke(&b, 12, 39, 4);
  EC_CHECK_FAILS(t, open_ptd(&b, b.size, &err), &err, EC_INVALID_EXTERNAL_DATA, "39 bytes");
  memcpy(b.data + 8, "FH02", 4);
  EC_CHECK_FAILS(t, open_ptd(&b, b.size, &err), &err, EC_INVALID_EXTERNAL_DATA, "FH01");
  EC_CHECK(t, open_ptd(&b, b.size, NULL) == EC_INVALID_EXTERNAL_DATA);
  ec_sample_ptd(&b);
  ec_fb_poke(&b, 0, 1, 4); /* the reference to the root */
  EC_CHECK(t, open_ptd(&b, b.size, NULL) == EC_INVALID_EXTERNAL_DATA);
  EC_CHECK_FAILS(t, open_ptd(&b, b.size, &err), &err, EC_INVALID_EXTERNAL_DATA, "tensor data: ");
  memcpy(b.data + 4, "FT02", 4);
  EC_CHECK_FAILS(t, open_ptd(&b, b.size, &err), &err, EC_INVALID_EXTERNAL_DATA,
                 "another version: found identifier 'FT02'");
  ec_sample_pte(&b);
  EC_CHECK_FAILS(t, open_ptd(&b, b.size, &err), &err, EC_INVALID_EXTERNAL_DATA, "a .pte program");
}

void ec_test_ptd_every_byte(ec_test *t) {
  EC_BUILD(b);
  ec_error err = {0};
  size_t refused = 0, cases = 0;
  ec_sample_ptd(&b);
  for (size_t at = 0; at < b.size; at++) {
    uint8_t whole = b.data[at];
    for (unsigned bit = 0; bit < 8; bit++, cases++) {
      b.data[at] = (uint8_t)(whole ^ 1u << bit);
      refused += open_ptd(&b, b.size, &err) != EC_OK;
    }
    b.data[at] = whole;
  }
  EC_CHECK(t, refused > cases / 10 && refused < cases);
}

void ec_test_named_map(ec_test *t) {
  EC_BUILD(program);
  EC_BUILD(data);
  ec_error err = {0};
  ec_pte pte;
  ec_ptd ptd;
  ec_named_map map;
  ec_arena arena = {0};
  ec_sample_pte(&program);
  ec_sample_ptd(&data);
  EC_CHECK_OK(t, ec_pte_open(&pte, program.data, program.size, EC_VERIFY_MINIMAL, &err), &err);
  EC_CHECK_OK(t, ec_ptd_open(&ptd, data.data, data.size, &err), &err);
  EC_CHECK_OK(t, ec_named_map_init(&map, &pte, &ptd, 1, NULL, &arena, &err), &err);
  EC_CHECK(t, map.count == 3);
  const ec_named_data *entry = ec_named_map_find(&map, "weight");
  EC_CHECK(t, entry && entry->source == 0 && entry->has_layout && entry->bytes.size == 16);
  EC_CHECK(t, entry && entry->layout.dtype == EC_FLOAT32 && entry->layout.numel == 4);
  entry = ec_named_map_find(&map, "blob");
  EC_CHECK(t, entry && !entry->has_layout && entry->bytes.size == 32);
  entry = ec_named_map_find(&map, "weights");
  EC_CHECK(t, entry && entry->source == -1 && entry->bytes.data[0] == 32);
  EC_CHECK(t, !ec_named_map_find(&map, "") && !ec_named_map_find(&map, "weightss"));
  char place[EC_PTD_TEXT];
  EC_CHECK(t, !strcmp(ec_named_data_place(entry, place), "the program"));
  EC_CHECK(t, !strcmp(ec_named_data_place(map.items, place), "data file 0")); /* "blob" */
  ec_named_data more = {.key = "more", .source = 7};
  const ec_named_list list = {&more, 1}, none = {NULL, 0};
  EC_CHECK_OK(t, ec_named_map_init(&map, &pte, &ptd, 1, &list, &arena, &err), &err);
  EC_CHECK(t, map.count == 4 && ec_named_map_find(&map, "more")->source == 7);
  EC_CHECK_OK(t, ec_named_map_init(&map, &pte, NULL, 0, &none, &arena, &err), &err);
  EC_CHECK(t, map.count == 1);
  EC_CHECK_OK(t, ec_named_map_init(&map, NULL, NULL, 0, NULL, &arena, &err), &err);
  EC_CHECK(t, map.count == 0 && !ec_named_map_find(&map, "weight"));
  ec_arena_deinit(&arena);
}

void ec_test_named_map_duplicates(ec_test *t) {
  EC_BUILD(a);
  EC_BUILD(b);
  ec_error err = {0};
  ec_ptd ptds[2];
  ec_named_map map;
  ec_arena arena = {0};
  ec_sample_ptd(&a);
  b = a;
  EC_CHECK_OK(t, ec_ptd_open(&ptds[0], a.data, a.size, &err), &err);
  EC_CHECK_OK(t, ec_ptd_open(&ptds[1], b.data, b.size, &err), &err);
  EC_CHECK_FAILS(t, ec_named_map_init(&map, NULL, ptds, 2, NULL, &arena, &err), &err,
                 EC_INVALID_ARGUMENT, "named data 'blob' is in data file ");
  EC_CHECK(t, map.count == 0);
  ec_arena_deinit(&arena);
}

enum { DROPPED = -1 };

/* Checks that the map refuses the sample with another number at a path, or without that field. */
static void refuse(ec_test *t, const char *path, int64_t value, const char *says) {
  EC_BUILD(b);
  ec_error err = {0};
  ec_ptd ptd;
  ec_named_map map;
  ec_arena arena = {0};
  ec_sample_ptd(&b);
  EC_CHECK_OK(t, ec_ptd_open(&ptd, b.data, b.size, &err), &err);
  if (value == DROPPED) ec_text_drop(&b, ec_ptd_schema(), path);
  else ec_text_set(&b, ec_ptd_schema(), path, (uint64_t)value);
  if (*says)
    EC_CHECK_FAILS(t, ec_named_map_init(&map, NULL, &ptd, 1, NULL, &arena, &err), &err,
                   EC_INVALID_EXTERNAL_DATA, says);
  else EC_CHECK_OK(t, ec_named_map_init(&map, NULL, &ptd, 1, NULL, &arena, &err), &err);
  ec_arena_deinit(&arena);
}

#define ENTRY "named_data[0]."
#define LAYOUT ENTRY "tensor_layout."

void ec_test_named_map_refuses(ec_test *t) {
  EC_BUILD(program);
  ec_error err = {0};
  ec_pte pte;
  ec_named_map map;
  ec_arena arena = {0};
  ec_sample_pte(&program);
  EC_CHECK_OK(t, ec_pte_open(&pte, program.data, program.size, EC_VERIFY_MINIMAL, &err), &err);
  ec_text_set(&program, ec_pte_schema(), "named_data[0].segment_index", 3);
  EC_CHECK_FAILS(t, ec_named_map_init(&map, &pte, NULL, 0, NULL, &arena, &err), &err,
                 EC_INVALID_PROGRAM, "program: named_data[0]: segment 3");
  ec_arena_deinit(&arena);
  refuse(t, ENTRY "key", DROPPED, "data file 0: named_data[0]: the entry has no key");
  refuse(t, ENTRY "segment_index", 3, "segment 3, but the file has 3");
  refuse(t, ENTRY "segment_index", 2, "0 bytes of data for a tensor of 16 bytes");
  refuse(t, LAYOUT "scalar_type", EC_FLOAT64, "16 bytes of data");
  refuse(t, LAYOUT "scalar_type", 12, ""); /* qint8 stays a blob */
  refuse(t, LAYOUT "sizes", DROPPED, "0 sizes and 2 dimensions");
  refuse(t, LAYOUT "dim_order[0]", 1, "permutation");
  refuse(t, LAYOUT "sizes[0]", UINT32_MAX, "impossible shape (-1, 2)");
  refuse(t, LAYOUT "sizes[0]", 0, "");
}

/* Keys and ranks at their limits. */
void ec_test_named_map_limits(ec_test *t) {
  static const char TEXT[] =
      "{segments: [{size: 4}], named_data: [{key: '%s', tensor_layout: {scalar_type: 6,"
      " sizes: [1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 %s], dim_order: [0 1 2 3 4 5 6 7 8 9 10 11 12 13"
      " 14 15 %s]}}]}";
  static char key[EC_MAX_NAME + 2], text[sizeof TEXT + sizeof key + 8];
  const struct {
    size_t key;
    const char *more, *says;
  } rows[] = {{EC_MAX_NAME, "", ""}, {EC_MAX_NAME + 1, "", "a key of 4097 bytes, at most 4096"},
              {1, "16", "17 sizes and 17 dimensions in dim_order, at most 16"}};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    EC_BUILD(b);
    ec_error err = {0};
    ec_arena arena = {0};
    ec_named_map map;
    memset(key, 'k', rows[i].key);
    key[rows[i].key] = 0;
    snprintf(text, sizeof text, TEXT, key, *rows[i].more ? "1" : "", rows[i].more);
    ec_build_begin(&b, 8);
    ec_text_build(&b, ec_ptd_schema(), text);
    const ec_ptd ptd = {.data = b.data, .size = b.size, .root = ec_fb_root(b.data),
                        .segment_data_size = 4};
    const ec_status status = ec_named_map_init(&map, NULL, &ptd, 1, NULL, &arena, &err);
    if (*rows[i].says) EC_CHECK(t, status != EC_OK && strstr(err.message, rows[i].says));
    else EC_CHECK(t, status == EC_OK && map.items->layout.rank == 16 && map.items->has_layout);
    ec_arena_deinit(&arena);
  }
}

void ec_test_source_file(ec_test *t) {
  ec_error err = {0};
  ec_source s = {0};
  char path[] = "ec_test_XXXXXX"; /* in the working directory */
  int fd = mkstemp(path);
  EC_CHECK(t, fd >= 0);
  EC_CHECK_FAILS(t, ec_source_open_file(&s, path, EC_MLOCK_NONE, &err), &err, EC_ACCESS_FAILED,
                 "is an empty file");
  EC_CHECK(t, write(fd, "0123456789", 10) == 10);
  close(fd);
  EC_CHECK_OK(t, ec_source_open_file(&s, path, EC_MLOCK_TRY, &err), &err);
  EC_CHECK(t, s.size == 10 && !memcmp(s.data, "0123456789", 10));
  unlink(path);
  EC_CHECK(t, s.data && s.data[9] == '9'); /* the mapping keeps the file */
  ec_source_release_pages(&s, s.data, s.size);    /* less than a page: no effect */
  ec_source_release_pages(&s, s.data, 1 << 20);   /* not a part of it */
  EC_CHECK(t, s.data[9] == '9');
  ec_source_close(&s);
  EC_CHECK(t, !s.data && !s.size);
  ec_source_close(&s);
  EC_CHECK_FAILS(t, ec_source_open_file(&s, path, EC_MLOCK_NONE, &err), &err, EC_ACCESS_FAILED,
                 path);
  EC_CHECK_FAILS(t, ec_source_open_file(&s, ".", EC_MLOCK_NONE, &err), &err, EC_ACCESS_FAILED,
                 "'.' is a directory");
  EC_CHECK_FAILS(t, ec_source_open_file(&s, "/dev/zero", EC_MLOCK_NONE, &err), &err,
                 EC_ACCESS_FAILED, "is a device");
}

static void count_release(void *owner) { ++*(int *)owner; }

void ec_test_source_buffer(ec_test *t) {
  ec_error err = {0};
  ec_source s;
  int released = 0;
  char *block = ec_alloc(64);
  EC_CHECK(t, block != NULL);
  if (!block) return;
  memset(block, 7, 64);
  EC_CHECK_OK(t, ec_source_open_buffer(&s, block, 64, count_release, &released, &err), &err);
  EC_CHECK(t, s.data == (uint8_t *)block && released == 0);
  ec_source_close(&s);
  EC_CHECK(t, released == 1);
  EC_CHECK_OK(t, ec_source_open_buffer(&s, block + 3, 10, count_release, &released, &err), &err);
  EC_CHECK(t, s.data != (uint8_t *)block + 3 && (uintptr_t)s.data % 16 == 0 && released == 2);
  EC_CHECK(t, s.size == 10 && s.data[9] == 7);
  ec_source_close(&s);
  EC_CHECK(t, released == 2);
  EC_CHECK_FAILS(t, ec_source_open_buffer(&s, block, 0, count_release, &released, &err), &err,
                 EC_INVALID_ARGUMENT, "empty");
  EC_CHECK_FAILS(t, ec_source_open_buffer(&s, block, SIZE_MAX, count_release, &released, &err),
                 &err, EC_INVALID_ARGUMENT, "bytes");
  EC_CHECK(t, released == 2);
  ec_free(block);
}

static ec_status load_all(const ec_fb_writer *program, const ec_fb_writer *data, ec_error *err) {
  ec_source s = {0};
  ec_pte pte;
  ec_ptd ptd;
  ec_named_map map;
  ec_arena arena = {0};
  ec_status status;
  static uint8_t misaligned[EC_BUILD_BYTES + 1];
  memcpy(misaligned + 1, program->data, program->size);
  EC_GOTO(status, ec_source_open_buffer(&s, misaligned + 1, program->size, NULL, NULL, err));
  EC_GOTO(status, ec_pte_open(&pte, s.data, s.size, EC_VERIFY_INTERNAL_CONSISTENCY, err));
  EC_GOTO(status, ec_ptd_open(&ptd, data->data, data->size, err));
  status = ec_named_map_init(&map, &pte, &ptd, 1, NULL, &arena, err);
fail:
  ec_arena_deinit(&arena);
  ec_source_close(&s);
  return status;
}

/* Each allocation fails in turn; the runner checks for leaks. */
void ec_test_format_without_memory(ec_test *t) {
  EC_BUILD(program);
  EC_BUILD(data);
  ec_error err = {0};
  ec_alloc_fail state;
  ec_sample_pte(&program);
  ec_sample_ptd(&data);
  ec_text_set(&program, ec_pte_schema(), "execution_plan[0].values[0].val.shape_dynamism", 1);
  ec_text_set(&program, ec_pte_schema(), "execution_plan[0].values[0].val.scalar_type", 99);
  size_t n = 0;
  ec_status status = EC_MEMORY_ALLOCATION_FAILED;
  while (status != EC_OK && n < 100) {
    ec_alloc_fail_install(&state);
    state.fail_at = ++n;
    status = load_all(&program, &data, &err);
    EC_CHECK(t, state.alive == 0);
    if (status != EC_OK)
      EC_CHECK_FAILS(t, status, &err, EC_MEMORY_ALLOCATION_FAILED, "no memory");
  }
  EC_CHECK(t, n == 4); /* the copy, the bits of inputs, the map; the fourth is never requested */
}
