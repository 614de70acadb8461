/* core/: numbers of every kind, names, layouts, statuses, and limits of the machine. */
#include "core/value.h"

#include <stdio.h>

#include "core/alloc.h"
#include "core/arena.h"
#include "core/budget.h"
#include "core/half.h"
#include "core/threads.h"
#include "testing/test.h"

void ec_test_value_numbers(ec_test *t) {
  const ec_value rows[] = {{.kind = EC_KIND_INT, .as.i = 3}, {.kind = EC_KIND_DOUBLE, .as.d = 3.5},
                           {.kind = EC_KIND_BOOL, .as.b = true}, {.kind = EC_KIND_BOOL},
                           {.kind = EC_KIND_INT}, {.kind = EC_KIND_DOUBLE, .as.d = 0.25}};
  const int64_t ints[] = {3, 3, 1, 0, 0, 0};
  const double doubles[] = {3, 3.5, 1, 0, 0, 0.25};
  const bool bools[] = {true, true, true, false, false, true};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    const ec_value *v = &rows[i];
    EC_CHECK(t, ec_is_number(v) && ec_value_scalar(v).kind == (ec_kind)v->kind);
    EC_CHECK(t, ec_value_int(v) == ints[i] && ec_scalar_int(ec_value_scalar(v)) == ints[i]);
    EC_CHECK(t, ec_value_double(v) == doubles[i]);
    EC_CHECK(t, ec_scalar_double(ec_value_scalar(v)) == doubles[i]);
    EC_CHECK(t, ec_value_bool(v) == bools[i]);
  }
  EC_CHECK(t, !ec_is_number(&(ec_value){.kind = EC_KIND_TENSOR}));
}

void ec_test_value_kinds(ec_test *t) {
  static const char *const names[] = {
      "None",     "Tensor",     "String",  "Double",     "Int",         "Bool",
      "BoolList", "DoubleList", "IntList", "TensorList", "unknown kind", "OptionalTensorList"};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++)
    EC_CHECK(t, !strcmp(ec_kind_name((ec_kind)i), names[i]));
}

void ec_test_statuses(ec_test *t) {
  static const ec_status codes[] = {
#define EC_STATUS(name, code, sentence, pyclass, pybase) EC_##name,
#include "core/status.def"
#undef EC_STATUS
  };
  enum { COUNT = sizeof codes / sizeof *codes };
  for (size_t i = 0; i < COUNT; i++) {
    const char *text = ec_status_sentence(codes[i]);
    EC_CHECK(t, text[0] && strcmp(text, "unknown status") != 0);
    for (size_t j = 0; j < i; j++) EC_CHECK(t, strcmp(text, ec_status_sentence(codes[j])) != 0);
  }
  ec_error err = {0};
  ec_fail(&err, EC_NOT_FOUND, "%ls", L"\xd800"); /* has no encoding */
  EC_CHECK(t, err.status == EC_NOT_FOUND && strlen(err.message) < EC_ERROR_SIZE);
  ec_error_clear(NULL);
  EC_CHECK(t, ec_fail_hint(NULL, EC_NOT_FOUND, EC_HINT_IS_DATA, "x") == EC_NOT_FOUND);
}

static ec_tensor shaped(size_t rank, const int64_t *sizes, const uint8_t *order) {
  ec_tensor tensor;
  (void)ec_tensor_init(&tensor, EC_FLOAT32, rank, sizes, order, NULL);
  return tensor;
}

void ec_test_tensor_layouts(ec_test *t) {
  const int64_t sizes[] = {2, 3}, others[] = {3, 2}, ones[] = {1, 3}, column[] = {3, 1};
  const uint8_t order[] = {1, 0};
  const ec_tensor a = shaped(2, sizes, NULL), b = shaped(2, sizes, order);
  const ec_tensor c = shaped(1, sizes, NULL), d = shaped(2, others, NULL);
  EC_CHECK(t, ec_tensor_is_contiguous(&a) && !ec_tensor_is_contiguous(&b));
  EC_CHECK(t, ec_tensor_same_layout(&a, &a) && !ec_tensor_same_layout(&a, &b));
  EC_CHECK(t, !ec_tensor_same_layout(&a, &c) && !ec_tensor_same_layout(&a, &d));
  EC_CHECK(t, ec_tensor_same_sizes(&a, &b) && !ec_tensor_same_sizes(&a, &c));
  EC_CHECK(t, !ec_tensor_same_sizes(&a, &d));
  /* Strides of dimensions of size 1 mean nothing, unless the other tensor has more. */
  const ec_tensor row = shaped(2, ones, NULL), turned = shaped(2, ones, order);
  const ec_tensor high = shaped(2, column, NULL);
  EC_CHECK(t, row.strides[0] != turned.strides[0] && ec_tensor_same_layout(&row, &turned));
  EC_CHECK(t, !ec_tensor_same_layout(&row, &high) && !ec_tensor_same_layout(&high, &row));
}

/* Ids of the format without kernels have a name and no size. */
void ec_test_dtypes_unsupported(ec_test *t) {
  static const struct {
    int id;
    const char *name, *torch_name;
  } rows[] = {{8, "complex32", "ComplexHalf"}, {12, "qint8", "QInt8"},
              {13, "quint8", "QUInt8"},        {14, "qint32", "QInt32"},
              {16, "quint4x2", "QUInt4x2"},    {17, "quint2x4", "QUInt2x4"},
              {18, "bits1x8", "Bits1x8"},      {19, "bits2x4", "Bits2x4"},
              {20, "bits4x2", "Bits4x2"},      {21, "bits8", "Bits8"},
              {22, "bits16", "Bits16"},        {99, "unknown dtype", "Unknown"}};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    const ec_dtype dtype = (ec_dtype)rows[i].id;
    EC_CHECK(t, ec_dtype_size(dtype) == 0 && !ec_dtype_valid(rows[i].id));
    EC_CHECK(t, !strcmp(ec_dtype_name(dtype), rows[i].name));
    EC_CHECK(t, !strcmp(ec_dtype_torch_name(dtype), rows[i].torch_name));
  }
}

void ec_test_tensor_limits(ec_test *t) {
  ec_error err = {0};
  ec_budget b;
  ec_tensor x;
  EC_CHECK_FAILS(t, ec_tensor_init(&x, EC_INT64, 1, (const int64_t[]){INT64_MAX / 2}, NULL, &err),
                 &err, EC_INVALID_PROGRAM, "impossible shape");
  EC_CHECK(t, ec_dtype_in(EC_FLOAT32, EC_SET_FLOATING) && !ec_dtype_in(EC_INT8, EC_SET_FLOATING));
  EC_CHECK(t, !ec_dtype_in((ec_dtype)40, ~0u));
  EC_CHECK(t, !strcmp(ec_dtype_name((ec_dtype)46), "unknown dtype"));
  char small[10];
  int64_t n;
  EC_CHECK(t, !ec_numel((const int64_t[]){INT64_MAX, 2, 2}, 3, &n));
  ec_shape_text((const int64_t[]){123456, 789012, 5}, 3, small, sizeof small);
  EC_CHECK(t, !strcmp(small, "(123456, "));
  EC_CHECK_OK(t, ec_tensor_init(&x, EC_FLOAT32, 0, &n, NULL, &err), &err);
  float number = 0;
  x.data = &number;
  x.capacity = sizeof number;
  EC_CHECK_OK(t, ec_tensor_resize(&x, 0, NULL, &err), &err);
  EC_CHECK(t, x.numel == 1 && ec_tensor_has_sizes(&x, 0, NULL));
  EC_CHECK_OK(t, ec_tensor_init(&x, EC_FLOAT32, 1, (const int64_t[]){4}, NULL, &err), &err);
  x.dynamism = EC_DYNAMIC_UNBOUND;
  EC_CHECK_FAILS(t, ec_tensor_resize(&x, 1, (const int64_t[]){INT64_MAX / 2 + 1}, &err), &err,
                 EC_NOT_SUPPORTED, "impossible");
  ec_budget_init(&b, 0, 1 << 20, NULL);
  b.growth = 64;
  ec_budget_enter(&b);
  EC_CHECK_OK(t, ec_tensor_resize(&x, 1, (const int64_t[]){8}, &err), &err);
  EC_CHECK(t, b.growth == 32);
  EC_CHECK_FAILS(t, ec_tensor_resize(&x, 1, (const int64_t[]){100}, &err), &err,
                 EC_MEMORY_ALLOCATION_FAILED, "unless they are allowed");
  EC_CHECK(t, err.hint == EC_HINT_MAX_BYTES && b.growth == 32);
  ec_budget_leave(&b);
  ec_tensor_drop_data(&x); /* its block is used again */
  EC_CHECK_OK(t, ec_tensor_resize(&x, 1, (const int64_t[]){6}, &err), &err);
  EC_CHECK(t, x.data && x.capacity == 32);
  ec_tensor_drop_data(&x);
  ec_tensor_trim(&x, true);
}

void ec_test_budget_explains(ec_test *t) {
  ec_budget b;
  ec_error err = {0};
  ec_budget_init(&b, 2, 100, NULL);
  EC_CHECK(t, ec_budget_explain(&b, EC_NOT_FOUND, NULL) == EC_NOT_FOUND);
  ec_fail(&err, EC_DELEGATE_ALLOCATION_FAILED, "no");
  EC_CHECK(t, ec_budget_explain(&b, err.status, &err) == EC_DELEGATE_ALLOCATION_FAILED);
  EC_CHECK(t, !strcmp(err.message, "no") && err.hint == EC_HINT_NONE); /* not because of it */
  b.refused = true;
  EC_CHECK(t, ec_budget_explain(&b, EC_MEMORY_ALLOCATION_FAILED, NULL) ==
                  EC_MEMORY_ALLOCATION_FAILED);
  EC_CHECK_FAILS(t, ec_budget_explain(&b, err.status, &err), &err, EC_DELEGATE_ALLOCATION_FAILED,
                 "100 bytes may be allocated");
  EC_CHECK(t, err.hint == EC_HINT_MAX_BYTES);
  (void)ec_budget_work(&b, 3 * EC_STEP, NULL);
  EC_CHECK(t, ec_budget_explain(&b, EC_MEMORY_ALLOCATION_FAILED, NULL) != EC_OK);
  ec_fail(&err, EC_MEMORY_ALLOCATION_FAILED, "no");
  EC_CHECK_FAILS(t, ec_budget_explain(&b, err.status, &err), &err, EC_MEMORY_ALLOCATION_FAILED,
                 "(after 2 steps)");
  EC_CHECK(t, err.hint == EC_HINT_MAX_STEPS);
}

static void *grant(void *user, size_t size, size_t align, int zeroed) {
  static _Alignas(EC_ALIGN) char block[2 * EC_ALIGN];
  (void)user, (void)size, (void)align, (void)zeroed;
  return block;
}

static void forget(void *user, void *block) { (void)user, (void)block; }

static size_t measure(void *user, void *block) {
  (void)user, (void)block;
  return 0;
}

void ec_test_alloc_limits(ec_test *t) {
  ec_arena arena = {0};
  ec_alloc_set_hook(NULL);
  EC_CHECK(t, !ec_alloc(SIZE_MAX) && !ec_alloc(SIZE_MAX - 100) && !ec_alloc(PTRDIFF_MAX));
  EC_CHECK(t, !ec_alloc_array(SIZE_MAX / 2, 3));
#ifndef __SANITIZE_ADDRESS__ /* which ends the process */
  EC_CHECK(t, !ec_alloc((size_t)PTRDIFF_MAX - 4096));
#endif
  EC_CHECK(t, !ec_arena_alloc(&arena, SIZE_MAX, 1) && !ec_arena_alloc(&arena, SIZE_MAX / 2, 1));
  ec_arena_deinit(&arena);
  ec_alloc_set_hook(&(ec_alloc_hook){grant, forget, measure, NULL}); /* blocks without an end */
  EC_CHECK(t, ec_arena_alloc(&arena, SIZE_MAX / 3, 1) && arena.total == SIZE_MAX / 3 + EC_ALIGN);
  EC_CHECK(t, !ec_arena_alloc(&arena, SIZE_MAX / 3, 1)); /* they cannot grow any more */
  ec_arena_deinit(&arena);
  ec_alloc_set_hook(NULL);
  ec_free(NULL);
  ec_clear(NULL, 0);
  char *block = ec_alloc_aligned(6 << 20, 1);
  EC_CHECK(t, block && (uintptr_t)block % EC_ALIGN == 0);
  if (!block) return;
  memset(block, 1, 6 << 20);
  ec_clear(block + 4096, 5 << 20); /* starts and, probably, ends with whole pages */
  EC_CHECK(t, block[4095] == 1 && !block[4096] && !block[4095 + (5 << 20)]);
  EC_CHECK(t, block[4096 + (5 << 20)] == 1);
  ec_free(block);
}

void ec_test_threads_without_pool(ec_test *t) {
  EC_CHECK(t, ec_threads_count(NULL) == 1 && !ec_threads_is_started(NULL));
  ec_threads *pool = ec_threads_acquire(1);
  EC_CHECK(t, ec_threads_count(pool) == 1 && !ec_threads_is_started(pool));
  ec_threads_release(pool);
}
