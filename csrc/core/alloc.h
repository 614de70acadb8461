/* The one way to memory. All allocation of the runtime goes through these functions, so that a
 * test can count blocks and fail the n-th allocation for every n (csrc/testing). */
#ifndef EC_CORE_ALLOC_H
#define EC_CORE_ALLOC_H

#include <stddef.h>

/* Replacements for malloc, calloc and free; `user` comes back in each call. */
typedef struct ec_alloc_hook {
  void *(*alloc)(void *user, size_t size, size_t align, int zeroed);
  void (*free)(void *user, void *block);
  size_t (*size)(void *user, void *block); /* as it was asked for */
  void *user;
} ec_alloc_hook;

/* The hook that is installed by default: the C library. */
extern const ec_alloc_hook ec_alloc_libc;

/* Installs a hook (NULL: ec_alloc_libc). Only while no block is alive and no other thread runs. */
void ec_alloc_set_hook(const ec_alloc_hook *hook);

enum { EC_ALIGN = 64 }; /* of every heap block: one cache line, one AVX-512 register */

/* Blocks are EC_ALIGN-aligned; size 0 gives a valid block; NULL on failure. */
void *ec_alloc(size_t size);
void *ec_alloc_zeroed(size_t size); /* large blocks cost nothing until they are touched */
void *ec_alloc_aligned(size_t size, size_t align); /* align: a power of two, any size */
void *ec_alloc_array(size_t count, size_t size);   /* zeroed; NULL where count * size overflows */
/* Zeroes what ec_alloc_zeroed or ec_alloc_aligned gave; a large block costs nothing again. */
void ec_clear(void *block, size_t size);
void ec_free(void *block);                         /* NULL is allowed */

#endif
