/* The arena: a list of growing blocks. */
#include "core/arena.h"

#include <stdint.h>
#include <string.h>

#include "core/alloc.h"
#include "core/checked.h"

typedef struct ec_arena_block {
  struct ec_arena_block *next;
  size_t size; /* usable bytes after the header */
} ec_arena_block;

enum { HEADER = EC_ALIGN, FIRST_BLOCK = 4096 };

static char *block_bytes(ec_arena_block *block) { return (char *)block + HEADER; }

/* The fuzzer gives every allocation a separate block, so that a sanitizer detects overruns. */
#ifdef EC_ARENA_EXACT
enum { EXACT = 1 };
#else
enum { EXACT = 0 };
#endif

static ec_arena_block *add_block(ec_arena *arena, size_t need) {
  size_t size = arena->blocks ? arena->blocks->size : FIRST_BLOCK / 2;
  if (size > SIZE_MAX / 4) return NULL;
  size = size * 2 > need && !EXACT ? size * 2 : need;
  size_t total;
  if (!ec_add_size(size, HEADER, &total)) return NULL;
  ec_arena_block *block = ec_alloc(total);
  if (!block) return NULL;
  block->next = arena->blocks;
  block->size = size;
  arena->blocks = block;
  arena->used = 0;
  arena->total += total;
  return block;
}

void *ec_arena_alloc(ec_arena *arena, size_t size, size_t align) {
  size_t at = (arena->used + align - 1) & ~(align - 1);
  if (EXACT || !arena->blocks || !ec_in_range(at, size, arena->blocks->size)) {
    if (!add_block(arena, size)) return NULL;
    at = 0;
  }
  arena->used = at + size;
  return block_bytes(arena->blocks) + at;
}

ec_status ec_arena_array(ec_arena *arena, size_t count, size_t size, const char *what, void *out,
                         ec_error *err) {
  size_t total;
  void *block = NULL;
  if (ec_mul_size(count, size, &total)) block = ec_arena_alloc(arena, total, EC_ALIGN);
  if (!block)
    return ec_fail(err, EC_MEMORY_ALLOCATION_FAILED, "no memory for %s (%zu x %zu bytes)", what,
                   count, size);
  memset(block, 0, total);
  memcpy(out, &block, sizeof block);
  return EC_OK;
}

void ec_arena_reset(ec_arena *arena) {
  if (arena->blocks)
    while (arena->blocks->next) {
      ec_arena_block *old = arena->blocks->next;
      arena->blocks->next = old->next;
      arena->total -= old->size + HEADER;
      ec_free(old);
    }
  arena->used = 0;
}

void ec_arena_deinit(ec_arena *arena) {
  while (arena->blocks) {
    ec_arena_block *next = arena->blocks->next;
    ec_free(arena->blocks);
    arena->blocks = next;
  }
  memset(arena, 0, sizeof *arena);
}
