/* core/: arenas, allocation, errors, tensors, dtypes, half-precision conversions. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <sys/mman.h>

#include "core/alloc.h"
#include "core/arena.h"
#include "core/half.h"
#include "core/value.h"
#include "testing/alloc_fail.h"
#include "testing/test.h"

void ec_test_arena(ec_test *t) {
  ec_arena arena = {0};
  const size_t aligns[] = {1, 2, 8, 64};
  for (size_t i = 0; i < 2000; i++) {
    size_t size = i * 7 % 301, align = aligns[i % 4];
    char *block = ec_arena_alloc(&arena, size, align);
    EC_CHECK(t, block && (uintptr_t)block % align == 0);
    if (block) memset(block, (int)i, size); /* a sanitizer detects overlaps with the block's end */
  }
  char *large = ec_arena_alloc(&arena, 1 << 20, 64);
  EC_CHECK(t, large != NULL);
  ec_arena_reset(&arena);
  size_t total = arena.total;
  EC_CHECK(t, total >= 1 << 20);
  EC_CHECK(t, ec_arena_alloc(&arena, 1 << 20, 64) == large); /* the largest block is kept */
  EC_CHECK(t, arena.total == total);
  ec_arena_deinit(&arena);
  EC_CHECK(t, arena.total == 0 && arena.blocks == NULL);
}

void ec_test_arena_overflow(ec_test *t) {
  ec_arena arena = {0};
  ec_error err = {0};
  void *block = NULL;
  EC_CHECK(t, !ec_arena_alloc(&arena, SIZE_MAX, 1));
  EC_CHECK(t, !ec_arena_alloc(&arena, SIZE_MAX - 64, 64));
  EC_CHECK(t, ec_arena_alloc(&arena, 3, 1) != NULL);
  EC_CHECK(t, !ec_arena_alloc(&arena, SIZE_MAX - 2, 1));
  EC_CHECK_FAILS(t, ec_arena_array(&arena, SIZE_MAX / 8, 16, "values", &block, &err), &err,
                 EC_MEMORY_ALLOCATION_FAILED, "no memory for values");
  EC_CHECK_OK(t, ec_arena_array(&arena, 100, 8, "values", &block, &err), &err);
  for (size_t i = 0; block && i < 800; i++) EC_CHECK(t, ((char *)block)[i] == 0);
  ec_arena_deinit(&arena);
}

void ec_test_alloc(ec_test *t) {
  ec_alloc_set_hook(NULL); /* the C library's blocks, not the runner's */
  void *empty = ec_alloc(0);
  EC_CHECK(t, empty && (uintptr_t)empty % EC_ALIGN == 0);
  ec_free(empty);
  ec_free(NULL);
  EC_CHECK(t, !ec_alloc(SIZE_MAX));
  EC_CHECK(t, !ec_alloc_zeroed(SIZE_MAX - 8));
  EC_CHECK(t, !ec_alloc_array(SIZE_MAX / 2, 3));
  char *page = ec_alloc_aligned(10, 4096);
  EC_CHECK(t, page && (uintptr_t)page % 4096 == 0 && page[9] == 0);
  ec_free(page);
}

void ec_test_alloc_clear(ec_test *t) {
  for (size_t size = 1; size < (size_t)20 << 20; size = size * 3 + 1) {
    unsigned char *block = ec_alloc_aligned(size, EC_ALIGN);
    if (!block) continue;
    memset(block, 7, size);
    ec_clear(block, size);
    size_t set = 0;
    for (size_t i = 0; i < size; i++) set += block[i] != 0;
    EC_CHECK(t, set == 0);
    memset(block, 9, size); /* all of it is writable */
    ec_free(block);
  }
}

/* Returns the number of pages of a block in memory. */
static size_t count_resident(char *block, size_t size) {
  enum { PAGE = 4096, MAX_PAGES = 1 << 16 };
  static unsigned char present[MAX_PAGES];
  char *first = block + (~(uintptr_t)block + 1) % PAGE;
  const size_t count = (size - (size_t)(first - block)) / PAGE;
  size_t pages = 0;
  if (count > MAX_PAGES || mincore(first, count * PAGE, present) != 0) return SIZE_MAX;
  for (size_t i = 0; i < count; i++) pages += present[i] & 1;
  return pages;
}

/* Touched pages stay, untouched ones stay untouched; of a huge block most are returned. */
void ec_test_alloc_clear_pages(ec_test *t) {
  ec_alloc_set_hook(NULL);
  const size_t part = (size_t)1 << 20, whole = 32 * part, huge = 128 * part;
  char *block = ec_alloc_aligned(whole, 4096);
  EC_CHECK(t, block);
  if (!block) return;
  memset(block + 5 * part + 100, 7, part);
  memset(block + 9 * part, 8, 3 * 4096);
  const size_t touched = count_resident(block, whole);
  ec_clear(block, whole);
  EC_CHECK(t, touched >= part / 4096 && count_resident(block, whole) <= touched);
  size_t set = 0;
  for (size_t i = 5 * part; i < 10 * part; i++) set += block[i] != 0;
  EC_CHECK(t, set == 0);
  ec_clear(block, whole); /* with pages that were only read */
  ec_free(block);
  block = ec_alloc_aligned(huge, 4096);
  EC_CHECK(t, block);
  if (!block) return;
  memset(block, 7, huge);
  ec_clear(block, huge);
  EC_CHECK(t, count_resident(block, huge) <= huge / 4096 * 3 / 4);
  for (size_t i = 0; i < huge; i += 64) set += block[i] != 0;
  EC_CHECK(t, set == 0);
  ec_free(block);
}

void ec_test_error(ec_test *t) {
  ec_error err = {0};
  EC_CHECK(t, ec_fail(NULL, EC_NOT_FOUND, "%d", 1) == EC_NOT_FOUND);
  EC_CHECK(t, ec_fail_in(NULL, EC_NOT_FOUND, "%d", 1) == EC_NOT_FOUND);
  ec_error_append(NULL, "x");
  ec_fail(&err, EC_NOT_FOUND, "no %s", "operator");
  EC_CHECK(t, ec_fail_in(&err, err.status, "method '%s'", "forward") == EC_NOT_FOUND);
  ec_error_append(&err, "; try %d", 3);
  EC_CHECK(t, strcmp(err.message, "method 'forward': no operator; try 3") == 0);
  for (int i = 0; i < 400; i++) ec_error_append(&err, "0123456789");
  size_t length = strlen(err.message);
  EC_CHECK(t, length == EC_ERROR_SIZE - 1);
  EC_CHECK(t, strcmp(err.message + length - 3, "...") == 0);
  ec_fail_in(&err, err.status, "%s", "where");
  EC_CHECK(t, strncmp(err.message, "where: method", 13) == 0);
  EC_CHECK(t, strcmp(err.message + strlen(err.message) - 3, "...") == 0);
  ec_error_clear(&err);
  EC_CHECK(t, err.status == EC_OK && !err.message[0]);
  EC_CHECK(t, strcmp(ec_status_sentence((ec_status)0x77), "unknown status") == 0);
}

void ec_test_tensor_shapes(ec_test *t) {
  char text[EC_SHAPE_TEXT], small[8];
  int64_t n = -1, strides[4];
  EC_CHECK(t, ec_numel(NULL, 0, &n) && n == 1);
  EC_CHECK(t, ec_numel((const int64_t[]){3, 0, INT64_MAX / 4}, 3, &n) && n == 0);
  EC_CHECK(t, !ec_numel((const int64_t[]){3, 0, INT64_MAX}, 3, &n)); /* strides would overflow */
  EC_CHECK(t, !ec_numel((const int64_t[]){3, -1}, 2, &n));
  EC_CHECK(t, !ec_numel((const int64_t[]){INT64_MAX, 2}, 2, &n));
  ec_strides((const int64_t[]){2, 3, 4, 5}, (const uint8_t[]){0, 2, 3, 1}, 4, strides);
  EC_CHECK(t, strides[0] == 60 && strides[1] == 1 && strides[2] == 15 && strides[3] == 3);
  ec_strides((const int64_t[]){2, 0, 4}, (const uint8_t[]){0, 1, 2}, 3, strides);
  EC_CHECK(t, strides[0] == 4 && strides[1] == 4 && strides[2] == 1);
  EC_CHECK(t, !strcmp(ec_shape_text(NULL, 0, text, sizeof text), "()"));
  EC_CHECK(t, !strcmp(ec_shape_text((const int64_t[]){5}, 1, text, sizeof text), "(5,)"));
  EC_CHECK(t, !strcmp(ec_shape_text((const int64_t[]){5, 6}, 2, text, sizeof text), "(5, 6)"));
  ec_shape_text((const int64_t[]){123456, 789012}, 2, small, sizeof small);
  EC_CHECK(t, strlen(small) < sizeof small);
}

void ec_test_tensor_init_refuses(ec_test *t) {
  ec_error err = {0};
  ec_tensor x;
  int64_t ones[17];
  for (int d = 0; d < 17; d++) ones[d] = 1;
  EC_CHECK_FAILS(t, ec_tensor_init(&x, EC_FLOAT32, 17, ones, NULL, &err), &err, EC_NOT_SUPPORTED,
                 "rank 17");
  EC_CHECK_OK(t, ec_tensor_init(&x, EC_FLOAT32, 16, ones, NULL, &err), &err);
  EC_CHECK_FAILS(t, ec_tensor_init(&x, (ec_dtype)12, 1, ones, NULL, &err), &err, EC_NOT_SUPPORTED,
                 "qint8");
  EC_CHECK_FAILS(t, ec_tensor_init(&x, (ec_dtype)99, 1, ones, NULL, &err), &err, EC_NOT_SUPPORTED,
                 "dtype");
  EC_CHECK_FAILS(t, ec_tensor_init(&x, EC_INT8, 2, (const int64_t[]){4, -1}, NULL, &err), &err,
                 EC_INVALID_PROGRAM, "(4, -1)");
  EC_CHECK_FAILS(t, ec_tensor_init(&x, EC_INT64, 1, (const int64_t[]){INT64_MAX / 4}, NULL, &err),
                 &err, EC_INVALID_PROGRAM, "impossible");
  EC_CHECK_FAILS(t, ec_tensor_init(&x, EC_INT8, 2, ones, (const uint8_t[]){0, 0}, &err), &err,
                 EC_INVALID_PROGRAM, "permutation");
  EC_CHECK_FAILS(t, ec_tensor_init(&x, EC_INT8, 2, ones, (const uint8_t[]){0, 255}, &err), &err,
                 EC_INVALID_PROGRAM, "permutation");
}

void ec_test_tensor_resize(ec_test *t) {
  ec_error err = {0};
  ec_tensor x;
  float data[6];
  EC_CHECK_OK(t, ec_tensor_init(&x, EC_FLOAT32, 2, (const int64_t[]){2, 3}, NULL, &err), &err);
  EC_CHECK_FAILS(t, ec_tensor_resize(&x, 2, (const int64_t[]){2, 3}, &err), &err, EC_INVALID_STATE,
                 "no storage");
  x.data = data;
  x.capacity = sizeof data;
  EC_CHECK_OK(t, ec_tensor_resize(&x, 2, (const int64_t[]){2, 3}, &err), &err);
  EC_CHECK_FAILS(t, ec_tensor_resize(&x, 2, (const int64_t[]){3, 2}, &err), &err, EC_NOT_SUPPORTED,
                 "fixes it to (2, 3)");
  x.dynamism = EC_DYNAMIC_BOUND;
  EC_CHECK_OK(t, ec_tensor_resize(&x, 2, (const int64_t[]){6, 1}, &err), &err);
  EC_CHECK(t, x.sizes[0] == 6 && x.strides[0] == 1);
  EC_CHECK_FAILS(t, ec_tensor_resize(&x, 2, (const int64_t[]){7, 1}, &err), &err, EC_NOT_SUPPORTED,
                 "upper bound is 6");
  EC_CHECK_FAILS(t, ec_tensor_resize(&x, 2, (const int64_t[]){-1, 1}, &err), &err,
                 EC_NOT_SUPPORTED, "impossible");
  EC_CHECK_FAILS(t, ec_tensor_resize(&x, 1, (const int64_t[]){6}, &err), &err, EC_NOT_SUPPORTED,
                 "rank");
  x.dynamism = EC_DYNAMIC_UNBOUND;
  x.data = NULL;
  x.capacity = 0;
  for (int64_t n = 1; n < 200; n++)
    EC_CHECK_OK(t, ec_tensor_resize(&x, 2, (const int64_t[]){n, 3}, &err), &err);
  EC_CHECK(t, ec_tensor_heap(&x) > x.capacity && x.capacity >= 199 * 3 * sizeof(float));
  ec_tensor_trim(&x, false);
  EC_CHECK(t, ec_tensor_heap(&x) == x.capacity);
  EC_CHECK_FAILS(t, ec_tensor_resize(&x, 2, (const int64_t[]){INT64_MAX / 64, 3}, &err), &err,
                 EC_MEMORY_ALLOCATION_FAILED, "no memory for");
  EC_CHECK_FAILS(t, ec_tensor_resize(&x, 2, (const int64_t[]){INT64_MAX / 8, 3}, &err), &err,
                 EC_NOT_SUPPORTED, "impossible");
  EC_CHECK(t, x.sizes[0] == 199);
  ec_tensor_drop_data(&x);
  ec_tensor_trim(&x, true);
  EC_CHECK(t, !x.data && !x.capacity && !x.storage);
}

void ec_test_dtypes(ec_test *t) {
  char names[64];
  EC_CHECK(t, ec_dtype_size(EC_COMPLEX128) == 16 && ec_dtype_size(EC_BOOL) == 1);
  EC_CHECK(t, ec_dtype_size((ec_dtype)12) == 0 && !strcmp(ec_dtype_name((ec_dtype)12), "qint8"));
  EC_CHECK(t, !ec_dtype_valid(-1) && !ec_dtype_valid(12) && !ec_dtype_valid(INT64_MAX));
  EC_CHECK(t, ec_dtype_valid(EC_UINT64) && ec_dtype_valid(0));
  EC_CHECK(t, !strcmp(ec_dtype_set_names(EC_BIT(EC_FLOAT32) | EC_BIT(EC_UINT8), names, 64),
                      "uint8, float32"));
  ec_dtype_set_names(EC_SET_ALL, names, sizeof names);
  EC_CHECK(t, strlen(names) < sizeof names);
}

void ec_test_float16_all(ec_test *t) {
  for (uint32_t h = 0; h < 0x10000; h++) {
    float f = ec_f16_to_f32((uint16_t)h);
    uint16_t back = ec_f32_to_f16(f);
    uint32_t exponent = h >> 10 & 31, mantissa = h & 1023;
    double want = exponent ? ldexp(1024.0 + mantissa, (int)exponent - 25) : ldexp(mantissa, -24);
    if (exponent == 31 && mantissa) {
      EC_CHECK(t, isnan(f) && (back & 0x7c00) == 0x7c00 && (back & 0x3ff) != 0);
      EC_CHECK(t, (back | 0x200) == (h | 0x200)); /* sign and payload, made quiet */
      continue;
    }
    if (exponent == 31) want = INFINITY;
    if (h & 0x8000) want = -want;
    EC_CHECK(t, (double)f == want && !signbit(f) == !signbit(want));
    EC_CHECK(t, back == h);
  }
}

/* Between neighbours: the middle rounds to the even one, numbers next to it to the nearest. */
void ec_test_float16_rounding(ec_test *t) {
  for (uint16_t h = 0; h < 0x7c00; h++) {
    float low = ec_f16_to_f32(h), high = h == 0x7bff ? 65536.0f : ec_f16_to_f32((uint16_t)(h + 1));
    float middle = (low + high) / 2; /* exact */
    uint16_t even = (uint16_t)(h + (h & 1));
    EC_CHECK(t, ec_f32_to_f16(middle) == even);
    EC_CHECK(t, ec_f32_to_f16(nextafterf(middle, 0)) == h);
    EC_CHECK(t, ec_f32_to_f16(nextafterf(middle, INFINITY)) == h + 1);
    EC_CHECK(t, ec_f32_to_f16(-middle) == (even | 0x8000));
  }
  EC_CHECK(t, ec_f32_to_f16(1e30f) == 0x7c00 && ec_f32_to_f16(-INFINITY) == 0xfc00);
  EC_CHECK(t, ec_f32_to_f16(0x1p-149f) == 0);
}

void ec_test_bfloat16(ec_test *t) {
  for (uint32_t h = 0; h < 0x10000; h++) {
    float f = ec_bf16_to_f32((uint16_t)h);
    uint16_t back = ec_f32_to_bf16(f);
    if (isnan(f)) EC_CHECK(t, isnan(ec_bf16_to_f32(back)));
    else EC_CHECK(t, back == h);
    if (h >= 0x7f7f) continue;
    float middle = ec_bits_float(h << 16 | 0x8000);
    EC_CHECK(t, ec_f32_to_bf16(middle) == h + (h & 1));
    EC_CHECK(t, ec_f32_to_bf16(nextafterf(middle, 0)) == h);
    EC_CHECK(t, ec_f32_to_bf16(nextafterf(middle, INFINITY)) == h + 1);
  }
}

void ec_test_scalar_int(ec_test *t) {
  const struct {
    double d;
    int64_t i;
  } rows[] = {{1.9, 1},          {-1.9, -1},           {1e300, INT64_MAX}, {-1e300, INT64_MIN},
              {NAN, 0},          {INFINITY, INT64_MAX}, {0x1p63, INT64_MAX},
              {-0x1p63, INT64_MIN}};
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    ec_scalar s = {.kind = EC_KIND_DOUBLE, .as.d = rows[i].d};
    EC_CHECK(t, ec_scalar_int(s) == rows[i].i);
  }
}
