/* The part of pthreadpool's interface used by core/threads.c, for ThreadSanitizer: the built
 * library is not instrumented, so its loops look like races. */
#ifndef EC_TESTING_POOL_PTHREADPOOL_H
#define EC_TESTING_POOL_PTHREADPOOL_H

#include <stddef.h>
#include <stdint.h>

typedef struct pthreadpool *pthreadpool_t;
typedef void (*pthreadpool_task_1d_tile_1d_t)(void *context, size_t begin, size_t size);

enum { PTHREADPOOL_FLAG_YIELD_WORKERS = 2 };

pthreadpool_t pthreadpool_create(size_t threads);
void pthreadpool_destroy(pthreadpool_t pool); /* NULL is allowed */

/* Calls task for pieces of a range, on the calling thread and all others. */
void pthreadpool_parallelize_1d_tile_1d(pthreadpool_t pool, pthreadpool_task_1d_tile_1d_t task,
                                        void *context, size_t range, size_t tile, uint32_t flags);

#endif
