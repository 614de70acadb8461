/* Products with packed weights: equal to products without, over several blocks of lanes and depth,
 * with either side constant, and without memory. */
#include <stdint.h>
#include <stdlib.h>

#include "core/alloc.h"
#include "core/arena.h"
#include "kernels/linalg/kept.h"
#include "testing/test.h"

enum { SELF, MAT2, OUT, COUNT };

typedef struct product {
  ec_arena arena;
  ec_tensor tensors[COUNT];
  ec_value values[COUNT];
  size_t reported; /* bytes reported to `packed` */
} product;

static float *floats(const product *p, size_t i) { return p->tensors[i].data; }

static void add_matrix(product *p, size_t i, int64_t rows, int64_t cols) {
  ec_tensor *t = &p->tensors[i];
  ec_error err = {0};
  if (ec_tensor_init(t, EC_FLOAT32, 2, (int64_t[]){rows, cols}, NULL, &err) != EC_OK) abort();
  t->capacity = (size_t)(rows * cols) * sizeof(float);
  t->data = ec_arena_alloc(&p->arena, t->capacity, EC_ALIGN);
  if (!t->data) abort();
  for (int64_t k = 0; k < rows * cols; k++) floats(p, i)[k] = (float)((k * 37 + 11) % 19) - 9;
  p->values[i].kind = EC_KIND_TENSOR;
  p->values[i].as.tensor = t;
}

static void note_packed(void *user, const void *data, size_t size) {
  product *p = user;
  for (int i = SELF; i <= MAT2; i++) {
    const size_t at = (size_t)((uintptr_t)data - (uintptr_t)p->tensors[i].data);
    if (at < p->tensors[i].capacity && size <= p->tensors[i].capacity - at) p->reported += size;
  }
}

static ec_status multiply(product *p, ec_kept *kept) {
  ec_value *args[] = {&p->values[SELF], &p->values[MAT2], &p->values[OUT]};
  ec_error err = {0};
  ec_arena scratch = {0};
  memset(p->tensors[OUT].data, 0xff, p->tensors[OUT].capacity);
  ec_call call = {.args = args, .op = ec_op_find("aten::mm.out"), .scratch = &scratch, .err = &err,
                  .kept = kept};
  ec_status status = call.op->fn(&call);
  ec_arena_deinit(&scratch);
  return status;
}

static void check_size(ec_test *t, int64_t m, int64_t n, int64_t k, uint32_t constants) {
  product p = {0};
  add_matrix(&p, SELF, m, k);
  add_matrix(&p, MAT2, k, n);
  add_matrix(&p, OUT, m, n);
  ec_kept_memory memory = {0, 1 << 30, note_packed, &p};
  ec_kept kept = {.memory = &memory, .constants = constants};
  const size_t bytes = p.tensors[OUT].capacity;
  void *expected = malloc(bytes);
  if (!expected) abort();
  EC_CHECK(t, multiply(&p, NULL) == EC_OK);
  memcpy(expected, p.tensors[OUT].data, bytes);
  for (int call = 0; call < 2; call++) {
    EC_CHECK(t, multiply(&p, &kept) == EC_OK);
    EC_CHECK(t, !memcmp(expected, p.tensors[OUT].data, bytes));
  }
  const size_t least = constants == 1u << SELF ? (size_t)(m * k) : (size_t)(k * n);
  EC_CHECK(t, kept.count == 1 && memory.bytes >= least * sizeof(float));
  EC_CHECK(t, p.reported == least * sizeof(float));
  floats(&p, constants == 1u << SELF ? SELF : MAT2)[0] += 1; /* read from the panels, not here */
  EC_CHECK(t, multiply(&p, &kept) == EC_OK && !memcmp(expected, p.tensors[OUT].data, bytes));
  ec_kept_deinit(&kept);
  free(expected);
  ec_arena_deinit(&p.arena);
}

void ec_test_packed_weights(ec_test *t) {
  ec_error err = {0};
  EC_CHECK_OK(t, ec_ops_init(&err), &err);
  const int64_t sizes[][3] = {{70, 90, 50},    {3, 7, 5},        {61, 49, 1},
                              {400, 33, 2100}, {33, 1100, 700}, {130, 17, 800}};
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
    const int64_t *s = sizes[i];
    check_size(t, s[0], s[1], s[2], 1u << SELF);
    if (s[0] > 60) check_size(t, s[0], s[1], s[2], 1u << MAT2); /* fewer rows read B in place */
  }
}

void ec_test_packed_weights_without_room(ec_test *t) {
  ec_error err = {0};
  EC_CHECK_OK(t, ec_ops_init(&err), &err);
  product p = {0};
  add_matrix(&p, SELF, 70, 50);
  add_matrix(&p, MAT2, 50, 90);
  add_matrix(&p, OUT, 70, 90);
  ec_kept_memory memory = {0, 100, note_packed, &p};
  ec_kept kept = {.memory = &memory, .constants = 1u << SELF | 1u << MAT2};
  EC_CHECK(t, multiply(&p, &kept) == EC_OK && kept.count == 0 && memory.bytes == 0);
  memory.room = 1 << 20;
  EC_CHECK(t, multiply(&p, &kept) == EC_OK && kept.count == 2);
  EC_CHECK(t, memory.bytes + memory.room == 1 << 20 && p.reported == (70 * 50 + 50 * 90) * 4);
  ec_kept_deinit(&kept);
  ec_arena_deinit(&p.arena);
}
