/* The counting and refusing allocator. Each block is a malloc of its own with the exact size at
 * its end, so that AddressSanitizer sees the first byte beyond it. */
#include "testing/alloc_fail.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "core/alloc.h"
#include "core/checked.h"

/* In front of each block. */
typedef struct header {
  void *raw;
  size_t size;
} header;

static int refused(ec_alloc_fail *state, size_t size) {
  state->requests++;
  if (state->fail_at && state->requests == state->fail_at) return 1;
  return state->limit && (size > state->limit || state->bytes > state->limit - size);
}

static void *counting_alloc(void *user, size_t size, size_t align, int zeroed) {
  ec_alloc_fail *state = user;
  size_t total;
  if (refused(state, size) || !ec_add_size(size, align + sizeof(header), &total) ||
      total > PTRDIFF_MAX)
    return NULL;
  char *raw = zeroed ? calloc(1, total) : malloc(total);
  if (!raw) return NULL;
  size_t shift = (align - ((uintptr_t)raw + sizeof(header)) % align) % align;
  char *block = raw + sizeof(header) + shift;
  header front = {raw, size};
  memcpy(block - sizeof front, &front, sizeof front);
  state->alive++;
  state->bytes += size;
  if (state->bytes > state->peak) state->peak = state->bytes;
  return block;
}

static header front_of(const void *block) {
  header front;
  memcpy(&front, (const char *)block - sizeof front, sizeof front);
  return front;
}

static size_t counted_size(void *user, void *block) {
  (void)user;
  return front_of(block).size;
}

static void counting_free(void *user, void *block) {
  ec_alloc_fail *state = user;
  const header front = front_of(block);
  state->alive--;
  state->bytes -= front.size;
  free(front.raw);
}

void ec_alloc_fail_install(ec_alloc_fail *state) {
  *state = (ec_alloc_fail){0};
  ec_alloc_set_hook(&(ec_alloc_hook){counting_alloc, counting_free, counted_size, state});
}

void ec_alloc_fail_remove(ec_alloc_fail *state) {
  (void)state;
  ec_alloc_set_hook(NULL);
}
