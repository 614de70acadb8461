/* The workers of pthreadpool, replacing its pthreads.c.
 *
 * pthreadpool waits until each of its threads has joined a loop, and all of them spin for some 20
 * ms first. On a busy machine every loop therefore waits for the last thread to get a CPU. Here a
 * loop is open as long as it has tasks left: a worker may join; the caller runs the remaining
 * tasks, closes the loop, and waits only for workers that have joined. Idle threads spin for the
 * time between two loops of a model, then sleep.
 *
 * A worker that is preempted in the middle of a task delays the caller by the time slices of
 * others. A caller that has waited longer than it worked admits fewer workers for a while. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* syscall */
#endif
#include <limits.h>
#include <linux/futex.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <fxdiv.h>
#include <pthreadpool.h>

#include "threadpool-common.h"
#include "threadpool-atomics.h"
#include "threadpool-object.h"
#include "threadpool-utils.h"

#if !PTHREADPOOL_USE_FUTEX
#error "workers sleep on futexes"
#endif

/* The use of members of struct pthreadpool:
 *   has_active_threads  the state of the loop: workers that have joined, how many more may, the
 *                       number of the loop, flags
 *   command             twice the number of the last loop, on which workers sleep; odd: the end
 *   active_threads      at least the number of workers that are asleep or about to be
 * Numbers have few bits: a worker that mistakes a loop for a previous one only misses it. */
enum {
  JOINED = 0x3ff, /* bits of the state */
  VACANCY_SHIFT = 10,
  VACANCIES = 0x3ff,
  NUMBER_SHIFT = 20,
  NUMBER = 0x3ff,
  WAITED = 1 << 30, /* the caller sleeps until all workers have left */
  SPIN_NANOSECONDS = 50000,
  PAUSES = 16, /* between reads of the clock */
  LONG_WAIT = 200000, /* nanoseconds beyond the differences between sizes of tasks */
  SHORTEST_BUSY = 4000000, /* after one wait, which an idle machine has too */
  LONGEST_BUSY = 320000000,
  RECENT = 80000000 /* after the busy state: another long wait doubles the time */
};
#define CLOSED (UINT32_C(1) << 31) /* to workers that have not joined */

static void futex_wait(pthreadpool_atomic_uint32_t* at, uint32_t value) {
  (void) syscall(SYS_futex, at, FUTEX_WAIT | FUTEX_PRIVATE_FLAG, value, NULL);
}

static void futex_wake(pthreadpool_atomic_uint32_t* at, size_t count) {
  const int most = count < INT_MAX ? (int) count : INT_MAX;
  (void) syscall(SYS_futex, at, FUTEX_WAKE | FUTEX_PRIVATE_FLAG, most);
}

static int64_t now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (int64_t) t.tv_sec * 1000000000 + t.tv_nsec;
}

/* Returns false when it is time to sleep. *until is 0 at first. */
static bool is_early(int64_t* until) {
  const int64_t time = now();
  if (!*until) *until = time + SPIN_NANOSECONDS;
  return time < *until;
}

/* ---- workers --------------------------------------------------------------------------------- */

static uint32_t number_of(uint32_t state) { return state >> NUMBER_SHIFT & NUMBER; }
static uint32_t vacancies_of(uint32_t state) { return state >> VACANCY_SHIFT & VACANCIES; }

/* Waits for a loop other than number `last`, or for the end. */
static uint32_t next_command(struct pthreadpool* pool, uint32_t last) {
  int64_t until = 0;
  uint32_t command;
  do {
    for (int i = 0; i < PAUSES; i++) {
      command = atomic_load_explicit(&pool->command, memory_order_acquire);
      if ((command >> 1 & NUMBER) != last || command & 1) return command;
      pthreadpool_yield();
    }
  } while (is_early(&until));
  for (;;) {
    atomic_fetch_add(&pool->active_threads, 1);
    command = atomic_load(&pool->command); /* the caller sets it before it counts the sleepers */
    if ((command >> 1 & NUMBER) != last || command & 1) return command;
    futex_wait(&pool->command, command);
  }
}

static bool is_task_left(struct pthreadpool* pool) {
  for (size_t i = 0; i < pool->threads_count.value; i++) {
    const size_t left = atomic_load_explicit(&pool->threads[i].range_length, memory_order_relaxed);
    if (left && left <= SIZE_MAX / 2) return true; /* the fast path counts below 0 */
  }
  return false;
}

/* Joins the current loop, at most once per worker. `last` is the number of the previous loop and
 * becomes that of the current one in any case. After joining, the loop's arguments are stable. */
static bool join(struct pthreadpool* pool, uint32_t* last) {
  uint32_t state = atomic_load_explicit(&pool->has_active_threads, memory_order_acquire);
  while (!(state & CLOSED) && vacancies_of(state) && number_of(state) != *last &&
         is_task_left(pool))
    if (atomic_compare_exchange_weak_explicit(&pool->has_active_threads, &state,
                                              state + 1 - (1 << VACANCY_SHIFT),
                                              memory_order_acq_rel, memory_order_acquire)) {
      *last = number_of(state);
      return true;
    }
  *last = number_of(state);
  return false;
}

static void leave(struct pthreadpool* pool) {
  const uint32_t state =
    atomic_fetch_sub_explicit(&pool->has_active_threads, 1, memory_order_acq_rel);
  if ((state & JOINED) == 1 && state & WAITED) futex_wake(&pool->has_active_threads, 1);
}

static void run_tasks(struct pthreadpool* pool, struct thread_info* thread) {
  const thread_function_t function = (thread_function_t) pthreadpool_load_relaxed_void_p(
    &pool->thread_function);
  struct fpu_state saved = {0};
  const bool flush =
    pthreadpool_load_relaxed_uint32_t(&pool->flags) & PTHREADPOOL_FLAG_DISABLE_DENORMALS;
  if (flush) {
    saved = get_fpu_state();
    disable_fpu_denormals();
  }
  function(pool, thread);
  if (flush) set_fpu_state(saved);
}

static void* run_worker(void* argument) {
  struct thread_info* thread = argument;
  struct pthreadpool* pool = thread->threadpool;
  uint32_t last = 0;
  while (!(next_command(pool, last) & 1)) {
    if (!join(pool, &last)) continue;
    run_tasks(pool, thread);
    leave(pool);
  }
  return NULL;
}

/* ---- the caller ------------------------------------------------------------------------------ */

static void wake(struct pthreadpool* pool, size_t most) {
  const size_t asleep = atomic_load(&pool->active_threads), count = min(asleep, most);
  if (!count) return;
  atomic_fetch_sub(&pool->active_threads, count);
  futex_wake(&pool->command, count);
}

static void share_out(struct pthreadpool* pool, size_t range) {
  const struct fxdiv_result_size_t each = fxdiv_divide_size_t(range, pool->threads_count);
  size_t start = 0;
  for (size_t i = 0; i < pool->threads_count.value; i++) {
    struct thread_info* thread = &pool->threads[i];
    const size_t length = each.quotient + (i < each.remainder);
    pthreadpool_store_relaxed_size_t(&thread->range_start, start);
    pthreadpool_store_relaxed_size_t(&thread->range_end, start + length);
    pthreadpool_store_relaxed_size_t(&thread->range_length, length);
    start += length;
  }
}

/* The end and the duration of the busy state, and the maximum number of workers in it. */
static _Atomic int64_t busy_until, busy_for;
static _Atomic size_t most_when_busy;

/* Returns the number of workers that a loop can use. */
static size_t workers_for(const struct pthreadpool* pool, size_t range, int64_t time) {
  const size_t most = min(pool->threads_count.value, range) - 1;
  if (time >= atomic_load_explicit(&busy_until, memory_order_relaxed)) return most;
  return min(most, atomic_load_explicit(&most_when_busy, memory_order_relaxed));
}

/* Updates the busy state after a loop that took the caller `ran` nanoseconds, and then `waited` for
 * some of `workers`. A worker with a CPU is still running at most one task, as long as one of the
 * caller's. */
static void learn(size_t workers, int64_t ran, int64_t waited, int64_t time) {
  if (waited < 2 * ran + LONG_WAIT) return;
  const int64_t last = atomic_load_explicit(&busy_for, memory_order_relaxed);
  const int64_t recent = 4 * last > RECENT ? 4 * last : RECENT;
  const bool is_still = time - atomic_load_explicit(&busy_until, memory_order_relaxed) < recent;
  const int64_t twice = 2 * last < LONGEST_BUSY ? 2 * last : LONGEST_BUSY;
  const int64_t now_for = is_still ? twice : SHORTEST_BUSY;
  atomic_store_explicit(&most_when_busy, workers < 8 ? workers / 2 : workers * 3 / 4,
                        memory_order_relaxed);
  atomic_store_explicit(&busy_for, now_for, memory_order_relaxed);
  atomic_store_explicit(&busy_until, time + now_for, memory_order_relaxed);
}

/* Admits workers. A worker that sees the open loop sees all earlier writes. */
static void open_loop(struct pthreadpool* pool, size_t workers) {
  const uint32_t command = atomic_load_explicit(&pool->command, memory_order_relaxed) + 2;
  const uint32_t number = command >> 1 & NUMBER;
  const uint32_t state = number << NUMBER_SHIFT | (uint32_t) workers << VACANCY_SHIFT;
  atomic_store_explicit(&pool->has_active_threads, state, memory_order_release);
  atomic_store(&pool->command, command);
  wake(pool, workers);
}

/* Waits for the workers that are still running, after all tasks have started. Returns true if the
 * wait was long. */
static bool close_loop(struct pthreadpool* pool) {
  pthreadpool_atomic_uint32_t* at = &pool->has_active_threads;
  uint32_t state = atomic_fetch_or_explicit(at, CLOSED, memory_order_acq_rel) | CLOSED;
  int64_t until = 0;
  do {
    for (int i = 0; i < PAUSES && state & JOINED; i++) {
      pthreadpool_yield();
      state = atomic_load_explicit(at, memory_order_acquire);
    }
  } while (state & JOINED && is_early(&until));
  const bool is_long = state & JOINED;
  while (state & JOINED) {
    state = atomic_fetch_or_explicit(at, WAITED, memory_order_acq_rel) | WAITED;
    if (state & JOINED) futex_wait(at, state);
    state = atomic_load_explicit(at, memory_order_acquire);
  }
  return is_long;
}

PTHREADPOOL_INTERNAL void pthreadpool_parallelize(struct pthreadpool* pool,
                                                  thread_function_t thread_function,
                                                  const void* params, size_t params_size,
                                                  void* task, void* context, size_t range,
                                                  uint32_t flags) {
  pthread_mutex_lock(&pool->execution_mutex);
  pthreadpool_store_relaxed_void_p(&pool->thread_function, (void*) thread_function);
  pthreadpool_store_relaxed_void_p(&pool->task, task);
  pthreadpool_store_relaxed_void_p(&pool->argument, context);
  pthreadpool_store_relaxed_uint32_t(&pool->flags, flags);
  if (params_size) memcpy(&pool->params, params, params_size);
  share_out(pool, range);
  const int64_t start = now();
  const size_t workers = workers_for(pool, range, start);
  if (workers) open_loop(pool, workers);
  run_tasks(pool, &pool->threads[0]);
  if (workers) {
    const int64_t done = now();
    if (close_loop(pool)) {
      const int64_t end = now();
      learn(workers, done - start, end - done, end);
    }
  }
  pthread_mutex_unlock(&pool->execution_mutex);
}

/* ---- pools ----------------------------------------------------------------------------------- */

/* Creates a pool with as many workers as the system can start; loops do not depend on them. */
struct pthreadpool* pthreadpool_create(size_t threads_count) {
  if (!threads_count) threads_count = (size_t) sysconf(_SC_NPROCESSORS_ONLN);
  if (threads_count > JOINED) return NULL;
  struct pthreadpool* pool = pthreadpool_allocate(threads_count);
  if (!pool) return NULL;
  pool->threads_count = fxdiv_init_size_t(threads_count);
  pthread_mutex_init(&pool->execution_mutex, NULL);
  pool->has_active_threads = CLOSED;
  for (size_t i = 0; i < threads_count; i++) pool->threads[i].thread_number = i;
  for (size_t i = 1; i < threads_count; i++) {
    struct thread_info* thread = &pool->threads[i];
    thread->threadpool = pool;
    if (!pthread_create(&thread->thread_object, NULL, run_worker, thread)) continue;
    thread->threadpool = NULL; /* not started */
    break;
  }
  return pool;
}

void pthreadpool_destroy(struct pthreadpool* pool) {
  if (!pool) return;
  atomic_fetch_or(&pool->command, 1);
  futex_wake(&pool->command, INT_MAX);
  for (size_t i = 1; i < pool->threads_count.value && pool->threads[i].threadpool; i++)
    pthread_join(pool->threads[i].thread_object, NULL);
  pthread_mutex_destroy(&pool->execution_mutex);
  pthreadpool_deallocate(pool);
}
