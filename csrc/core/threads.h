/* Pools of threads for loops, shared by all who ask for the same number of threads.
 *
 * They are pthreadpool's where this is built with EC_HAVE_PTHREADPOOL, so that XNNPACK works on the
 * same ones; without it every loop runs on the thread that asks. A pool starts its threads when it
 * is first used. In a forked process, where they do not exist, it starts new ones. */
#ifndef EC_CORE_THREADS_H
#define EC_CORE_THREADS_H

#include <stddef.h>

typedef struct ec_threads ec_threads;

enum { EC_MAX_THREADS = 256 }; /* of one pool */

/* A piece of a loop: [begin, end). */
typedef void (*ec_range_fn)(void *user, size_t begin, size_t end);

/* The pool of so many threads, the caller's own among them; 0: the default of the process. NULL,
 * which all functions here take for one thread, where one is wanted or no more can be had. */
ec_threads *ec_threads_acquire(size_t threads);
void ec_threads_release(ec_threads *pool);

size_t ec_threads_count(const ec_threads *pool);

/* Whether its threads run now. */
int ec_threads_is_started(const ec_threads *pool);

/* The pthreadpool_t; NULL: work on the calling thread. Another one after a fork. */
void *ec_threads_native(ec_threads *pool);

/* Runs fn over [0, count) in pieces of at least `grain`, the last of each maybe less; returns when
 * all are done. On the calling thread alone where there is one piece, or where the pool is at work
 * for somebody else (or for a loop around this one): it never waits for others. Which thread runs
 * what, and where pieces end, is not determined: results must not depend on it. */
void ec_threads_run(ec_threads *pool, size_t count, size_t grain, ec_range_fn fn, void *user);

/* CPUs that this process may keep busy (core/cpus.h); 1 where there are no pools. */
size_t ec_threads_cpus(void);

/* The number that 0 stands for in ec_threads_acquire, between 1 and EC_MAX_THREADS:
 * ec_threads_cpus() unless it was set. Setting 0 unsets it. */
size_t ec_threads_default(void);
void ec_threads_set_default(size_t threads);

#endif
