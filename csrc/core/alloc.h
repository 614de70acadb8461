/* The only interface to heap memory. Every allocation of the runtime goes through these functions,
 * so that a test can count blocks and fail the n-th allocation for every n (csrc/testing). */
#ifndef EC_CORE_ALLOC_H
#define EC_CORE_ALLOC_H

#include <stddef.h>

/* Replacements for malloc, calloc and free. Each call receives `user`. */
typedef struct ec_alloc_hook {
  void *(*alloc)(void *user, size_t size, size_t align, int zeroed);
  void (*free)(void *user, void *block);
  size_t (*size)(void *user, void *block); /* the requested size */
  void *user;
} ec_alloc_hook;

/* The default hook: the C library's functions. */
extern const ec_alloc_hook ec_alloc_libc;

/* Installs a hook (NULL: ec_alloc_libc). Allowed only while no block is alive and no other thread
 * runs. */
void ec_alloc_set_hook(const ec_alloc_hook *hook);

enum { EC_ALIGN = 64 }; /* alignment of every heap block: one cache line, one AVX-512 register */

/* Returns a block aligned to EC_ALIGN, valid even for size 0; NULL on failure. */
void *ec_alloc(size_t size);
void *ec_alloc_zeroed(size_t size); /* large blocks use no memory until they are touched */
void *ec_alloc_aligned(size_t size, size_t align); /* align: any power of two */
void *ec_alloc_array(size_t count, size_t size);   /* zeroed; NULL if count * size overflows */
/* Zeroes a block from ec_alloc_zeroed or ec_alloc_aligned. Pages that a large block never touched
 * stay untouched; a very large one returns most of its pages. */
void ec_clear(void *block, size_t size);
void ec_free(void *block);                         /* NULL is allowed */

#endif
