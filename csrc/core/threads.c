/* Thread pools: a reference-counted table by number of threads, on top of pthreadpool. */
#include "core/threads.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "core/cpus.h"

#ifdef EC_HAVE_PTHREADPOOL
#include <pthreadpool.h>
#endif

struct ec_threads {
  size_t threads, users;
  _Atomic(void *) native; /* a pthreadpool_t; NULL: not started */
  atomic_flag busy;       /* set during a loop of ec_threads_run */
};

size_t ec_threads_count(const ec_threads *pool) { return pool ? pool->threads : 1; }

int ec_threads_is_started(const ec_threads *pool) { return pool && pool->native; }

#ifdef EC_HAVE_PTHREADPOOL

/* guards reference counts and the start of threads */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static ec_threads pools[EC_MAX_THREADS + 1]; /* indexed by number of threads */
static atomic_size_t default_threads; /* 0: not set */

static size_t at_most(size_t threads) {
  return threads < EC_MAX_THREADS ? threads : EC_MAX_THREADS;
}

size_t ec_threads_cpus(void) { return at_most(ec_cpus_count()); }

size_t ec_threads_default(void) {
  size_t set = default_threads;
  return set ? set : ec_threads_cpus();
}

void ec_threads_set_default(size_t threads) { default_threads = at_most(threads); }

/* Resets all pools in the child of a fork, which has one thread. The memory of the lost threads
 * leaks. The thread that held the lock may be lost too, so the lock is reset. */
static void forget_threads(void) {
  pthread_mutex_init(&lock, NULL);
  for (size_t i = 0; i <= EC_MAX_THREADS; i++) {
    pools[i].native = NULL;
    atomic_flag_clear(&pools[i].busy);
  }
}

static void watch_forks(void) { pthread_atfork(NULL, NULL, forget_threads); }

ec_threads *ec_threads_acquire(size_t threads) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  threads = at_most(threads ? threads : ec_threads_default());
  if (threads == 1) return NULL;
  pthread_once(&once, watch_forks);
  ec_threads *pool = &pools[threads];
  pthread_mutex_lock(&lock);
  if (!pool->threads) pool->threads = threads;
  pool->users++;
  pthread_mutex_unlock(&lock);
  return pool;
}

void ec_threads_release(ec_threads *pool) {
  if (!pool) return;
  pthread_mutex_lock(&lock);
  void *unused = NULL;
  if (--pool->users == 0) unused = atomic_exchange(&pool->native, NULL);
  pthread_mutex_unlock(&lock);
  pthreadpool_destroy(unused);
}

/* Starts threads with signals blocked: signals belong to the program's threads. A Python signal
 * delivered here would not wake the main thread. */
static void *start_threads(size_t threads) {
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  pthreadpool_t native = pthreadpool_create(threads);
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  return native;
}

void *ec_threads_native(ec_threads *pool) {
  if (!pool) return NULL;
  if (!pool->native) {
    pthread_mutex_lock(&lock);
    if (!pool->native) pool->native = start_threads(pool->threads);
    pthread_mutex_unlock(&lock);
  }
  return pool->native;
}

typedef struct range_call {
  ec_range_fn fn;
  void *user;
} range_call;

static void run_piece(void *context, size_t begin, size_t size) {
  const range_call *call = context;
  call->fn(call->user, begin, begin + size);
}

/* Runs a loop with workers that sleep in between, which leaves the CPUs to others. (The flag
 * matters for a pthreadpool whose workers, unlike ours, spin for milliseconds.) */
void ec_threads_run(ec_threads *pool, size_t count, size_t grain, ec_range_fn fn, void *user) {
  enum { PIECES = 4 }; /* per thread, because threads may differ in speed */
  if (!count) return;
  if (!pool || count <= grain || atomic_flag_test_and_set(&pool->busy)) {
    fn(user, 0, count);
    return;
  }
  range_call call = {fn, user};
  size_t piece = (count - 1) / (pool->threads * PIECES) + 1;
  if (piece < grain) piece = grain;
  void *native = ec_threads_native(pool);
  if (native)
    pthreadpool_parallelize_1d_tile_1d(native, run_piece, &call, count, piece,
                                       PTHREADPOOL_FLAG_YIELD_WORKERS);
  else fn(user, 0, count);
  atomic_flag_clear(&pool->busy);
}

#else /* without pthreadpool */

size_t ec_threads_cpus(void) { return 1; }
size_t ec_threads_default(void) { return 1; }
void ec_threads_set_default(size_t threads) { (void)threads; }


ec_threads *ec_threads_acquire(size_t threads) {
  (void)threads;
  return NULL;
}

void ec_threads_release(ec_threads *pool) { (void)pool; }

void *ec_threads_native(ec_threads *pool) {
  (void)pool;
  return NULL;
}

void ec_threads_run(ec_threads *pool, size_t count, size_t grain, ec_range_fn fn, void *user) {
  (void)pool;
  (void)grain;
  if (count) fn(user, 0, count);
}

#endif
