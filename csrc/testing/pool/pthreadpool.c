/* Threads that wait for a loop under one mutex. The implementation is simple, so that
 * ThreadSanitizer's reports concern the code that runs on them. */
#include "testing/pool/pthreadpool.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>

struct pthreadpool {
  pthread_mutex_t lock;
  pthread_cond_t begun, ended;
  size_t loops;   /* started so far */
  size_t running; /* threads that have not finished the current one */
  bool closing;
  pthreadpool_task_1d_tile_1d_t task;
  void *context;
  size_t range, tile, next;
  size_t count; /* of threads, without the calling one */
  pthread_t threads[];
};

static void run_pieces(pthreadpool_t pool) {
  for (;;) {
    pthread_mutex_lock(&pool->lock);
    const size_t begin = pool->next;
    if (begin < pool->range) pool->next = begin + pool->tile;
    pthread_mutex_unlock(&pool->lock);
    if (begin >= pool->range) return;
    const size_t left = pool->range - begin;
    pool->task(pool->context, begin, left < pool->tile ? left : pool->tile);
  }
}

static void *work(void *user) {
  pthreadpool_t pool = user;
  pthread_mutex_lock(&pool->lock);
  for (size_t seen = 0; !pool->closing;) {
    if (pool->loops == seen) {
      pthread_cond_wait(&pool->begun, &pool->lock);
      continue;
    }
    seen = pool->loops;
    pthread_mutex_unlock(&pool->lock);
    run_pieces(pool);
    pthread_mutex_lock(&pool->lock);
    if (--pool->running == 0) pthread_cond_signal(&pool->ended);
  }
  pthread_mutex_unlock(&pool->lock);
  return NULL;
}

pthreadpool_t pthreadpool_create(size_t threads) {
  pthreadpool_t pool = calloc(1, sizeof *pool + threads * sizeof *pool->threads);
  if (!pool) return NULL;
  pthread_mutex_init(&pool->lock, NULL);
  pthread_cond_init(&pool->begun, NULL);
  pthread_cond_init(&pool->ended, NULL);
  while (pool->count + 1 < threads &&
         pthread_create(&pool->threads[pool->count], NULL, work, pool) == 0)
    pool->count++;
  return pool;
}

void pthreadpool_destroy(pthreadpool_t pool) {
  if (!pool) return;
  pthread_mutex_lock(&pool->lock);
  pool->closing = true;
  pthread_cond_broadcast(&pool->begun);
  pthread_mutex_unlock(&pool->lock);
  for (size_t i = 0; i < pool->count; i++) pthread_join(pool->threads[i], NULL);
  pthread_mutex_destroy(&pool->lock);
  pthread_cond_destroy(&pool->begun);
  pthread_cond_destroy(&pool->ended);
  free(pool);
}

void pthreadpool_parallelize_1d_tile_1d(pthreadpool_t pool, pthreadpool_task_1d_tile_1d_t task,
                                        void *context, size_t range, size_t tile, uint32_t flags) {
  (void)flags;
  pthread_mutex_lock(&pool->lock);
  pool->task = task;
  pool->context = context;
  pool->range = range;
  pool->tile = tile;
  pool->next = 0;
  pool->running = pool->count;
  pool->loops++;
  pthread_cond_broadcast(&pool->begun);
  pthread_mutex_unlock(&pool->lock);
  run_pieces(pool);
  pthread_mutex_lock(&pool->lock);
  while (pool->running) pthread_cond_wait(&pool->ended, &pool->lock);
  pthread_mutex_unlock(&pool->lock);
}
