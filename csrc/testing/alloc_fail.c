/* The counting and refusing allocator, on top of the C library's. */
#include "testing/alloc_fail.h"

#include "core/alloc.h"

/* Relaxed: ordering between threads would hide races from ThreadSanitizer. */
static size_t add(atomic_size_t *counter, size_t n) {
  return atomic_fetch_add_explicit(counter, n, memory_order_relaxed) + n;
}

static size_t now(const atomic_size_t *counter) {
  return atomic_load_explicit(counter, memory_order_relaxed);
}

static int refused(ec_alloc_fail *state, size_t size) {
  const size_t number = add(&state->requests, 1);
  if (state->fail_at && number == state->fail_at) return 1;
  if (state->fail_at && state->onwards && number > state->fail_at) return 1;
  return state->limit && (size > state->limit || now(&state->bytes) > state->limit - size);
}

static void *counting_alloc(void *user, size_t size, size_t align, int zeroed) {
  ec_alloc_fail *state = user;
  void *block = refused(state, size) ? NULL : ec_alloc_libc.alloc(NULL, size, align, zeroed);
  if (!block) return NULL;
  add(&state->alive, 1);
  const size_t bytes = add(&state->bytes, size);
  if (bytes > now(&state->peak)) atomic_store_explicit(&state->peak, bytes, memory_order_relaxed);
  return block;
}

static size_t counted_size(void *user, void *block) {
  (void)user;
  return ec_alloc_libc.size(NULL, block);
}

static void counting_free(void *user, void *block) {
  ec_alloc_fail *state = user;
  add(&state->alive, (size_t)-1);
  add(&state->bytes, -ec_alloc_libc.size(NULL, block));
  ec_alloc_libc.free(NULL, block);
}

void ec_alloc_fail_install(ec_alloc_fail *state) {
  *state = (ec_alloc_fail){.fail_at = 0};
  ec_alloc_set_hook(&(ec_alloc_hook){counting_alloc, counting_free, counted_size, state});
}

void ec_alloc_fail_remove(ec_alloc_fail *state) {
  (void)state;
  ec_alloc_set_hook(NULL);
}
