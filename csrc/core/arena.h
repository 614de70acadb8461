/* A bump allocator for objects with the lifetime of a program, a method or a call. */
#ifndef EC_CORE_ARENA_H
#define EC_CORE_ARENA_H

#include <stddef.h>

#include "core/error.h"

struct ec_arena_block;

/* A zeroed arena is empty and usable. */
typedef struct ec_arena {
  struct ec_arena_block *blocks; /* newest first */
  size_t used;                   /* bytes used in the newest block */
  size_t total;                  /* bytes held, for memory statistics */
} ec_arena;

/* Returns uninitialised memory aligned to `align` (a power of two up to EC_ALIGN); NULL on
 * failure. */
void *ec_arena_alloc(ec_arena *arena, size_t size, size_t align);

/* Allocates `count` zeroed elements of `size` bytes. The error message names `what`. */
ec_status ec_arena_array(ec_arena *arena, size_t count, size_t size, const char *what, void *out,
                         ec_error *err);

/* Frees every allocation. The newest (largest) block is kept for reuse. */
void ec_arena_reset(ec_arena *arena);

void ec_arena_deinit(ec_arena *arena);

#endif
