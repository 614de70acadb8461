/* A bump allocator for things that die together: a program's, a method's or one call's. */
#ifndef EC_CORE_ARENA_H
#define EC_CORE_ARENA_H

#include <stddef.h>

#include "core/error.h"

struct ec_arena_block;

/* Zeroed is empty and usable. */
typedef struct ec_arena {
  struct ec_arena_block *blocks; /* newest first */
  size_t used;                   /* bytes taken in the newest block */
  size_t total;                  /* bytes held, for memory figures */
} ec_arena;

/* Uninitialised memory, aligned to `align` (a power of two up to EC_ALIGN). NULL on failure. */
void *ec_arena_alloc(ec_arena *arena, size_t size, size_t align);

/* `count` zeroed elements of `size` bytes; fails with a sentence that names `what`. */
ec_status ec_arena_array(ec_arena *arena, size_t count, size_t size, const char *what, void *out,
                         ec_error *err);

/* Forgets every allocation; keeps the newest (largest) block for the next use. */
void ec_arena_reset(ec_arena *arena);

void ec_arena_deinit(ec_arena *arena);

#endif
