/* Thread pools for loops, shared by all users of the same number of threads.
 *
 * A build with EC_HAVE_PTHREADPOOL uses pthreadpool, so that XNNPACK works on the same pools.
 * Without it every loop runs on the calling thread. A pool starts its threads at its first use. A
 * forked process, which has lost them, starts new ones. */
#ifndef EC_CORE_THREADS_H
#define EC_CORE_THREADS_H

#include <stddef.h>

typedef struct ec_threads ec_threads;

enum { EC_MAX_THREADS = 256 }; /* per pool */

/* A piece of a loop: [begin, end). */
typedef void (*ec_range_fn)(void *user, size_t begin, size_t end);

/* Returns the pool of `threads` threads, the calling thread included; 0: the process default.
 * Returns NULL for one thread, and where more are unavailable. All functions here take NULL as one
 * thread. */
ec_threads *ec_threads_acquire(size_t threads);
void ec_threads_release(ec_threads *pool);

size_t ec_threads_count(const ec_threads *pool);

/* Returns 1 if the pool's threads are running. */
int ec_threads_is_started(const ec_threads *pool);

/* Returns the pthreadpool_t, or NULL: work on the calling thread. It changes after a fork. */
void *ec_threads_native(ec_threads *pool);

/* Runs fn over [0, count) in pieces of at least `grain` (the last may be smaller). Returns when all
 * pieces are done. The calling thread runs the loop alone if there is one piece, or if the pool is
 * busy with another loop (even an enclosing one): the function never waits for other users. The
 * assignment of pieces to threads and their boundaries are unspecified; results must not depend on
 * them. */
void ec_threads_run(ec_threads *pool, size_t count, size_t grain, ec_range_fn fn, void *user);

/* Returns the CPUs available to this process (core/cpus.h); 1 without thread pools. */
size_t ec_threads_cpus(void);

/* Returns the number of threads that 0 stands for in ec_threads_acquire, between 1 and
 * EC_MAX_THREADS: ec_threads_cpus() unless it was set. Setting 0 restores that. */
size_t ec_threads_default(void);
void ec_threads_set_default(size_t threads);

#endif
