/* Locks owned by thread numbers. A number is unique in a process and never reused. Its high bits
 * hold the count of forks at its creation: of the threads of earlier forks, at most the one that
 * forked still exists. */
#include "core/lock.h"

#include <errno.h>
#include <pthread.h>
#include <time.h>

enum {
  FORKS_FROM = 40, /* low bits of a number: the thread; the rest: the forks */
  SECOND = 1000000000,
  WHILE = SECOND / 10
};

static atomic_uint_fast64_t forks, threads, survivor;
static _Thread_local uint64_t this_thread;

static pthread_mutex_t mutexes[EC_MUTEX_COUNT];
static pthread_once_t once = PTHREAD_ONCE_INIT;

/* ---- forks ------------------------------------------------------------------------------- */

static void before_fork(void) {
  for (int i = 0; i < EC_MUTEX_COUNT; i++) pthread_mutex_lock(&mutexes[i]);
}

static void after_fork(void) {
  for (int i = EC_MUTEX_COUNT; i-- > 0;) pthread_mutex_unlock(&mutexes[i]);
}

static void in_child(void) {
  after_fork();
  atomic_fetch_add(&forks, 1);
  atomic_store(&survivor, this_thread);
}

static void init_mutexes(void) {
  for (int i = 0; i < EC_MUTEX_COUNT; i++) pthread_mutex_init(&mutexes[i], NULL);
  pthread_atfork(before_fork, after_fork, in_child);
}

static uint64_t number_of_this_thread(void) {
  if (!this_thread)
    this_thread = atomic_load(&forks) << FORKS_FROM | (atomic_fetch_add(&threads, 1) + 1);
  return this_thread;
}

static bool thread_exists(uint64_t thread) {
  return thread >> FORKS_FROM == atomic_load(&forks) || thread == atomic_load(&survivor);
}

/* ---- locks ------------------------------------------------------------------------------- */

void ec_lock_init(ec_lock *lock) {
  pthread_once(&once, init_mutexes);
  atomic_init(&lock->owner, 0);
  atomic_init(&lock->waiting, 0);
  sem_init(&lock->released, 0, 0);
}

void ec_lock_deinit(ec_lock *lock) { sem_destroy(&lock->released); }

bool ec_lock_is_mine(const ec_lock *lock) {
  return atomic_load(&lock->owner) == number_of_this_thread();
}

bool ec_lock_is_lost(const ec_lock *lock) {
  const uint64_t owner = atomic_load(&lock->owner);
  return owner && !thread_exists(owner);
}

ec_locked ec_lock_try(ec_lock *lock) {
  uint64_t owner = 0;
  const uint64_t mine = number_of_this_thread();
  if (atomic_compare_exchange_strong(&lock->owner, &owner, mine)) return EC_LOCKED;
  if (owner == mine) return EC_LOCKED_BY_THIS;
  return thread_exists(owner) ? EC_LOCKED_BY_OTHER : EC_LOCKED_BY_NOBODY;
}

static uint64_t lock_clock(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (uint64_t)t.tv_sec * SECOND + (uint64_t)t.tv_nsec;
}

/* Sleeps until the lock is released, a signal arrives (returns false), or WHILE has passed. */
static bool sleep_while_locked(ec_lock *lock) {
  struct timespec until;
  clock_gettime(CLOCK_REALTIME, &until);
  until.tv_nsec += WHILE;
  if (until.tv_nsec >= SECOND) {
    until.tv_nsec -= SECOND;
    until.tv_sec++;
  }
  return sem_timedwait(&lock->released, &until) == 0 || errno != EINTR;
}

static void wake_one(ec_lock *lock) {
  int posted = 0;
  sem_getvalue(&lock->released, &posted);
  if (posted <= 0) sem_post(&lock->released);
}

ec_locked ec_lock_wait(ec_lock *lock, bool (*stop)(void *user), void *user) {
  ec_locked locked = ec_lock_try(lock);
  if (locked != EC_LOCKED_BY_OTHER) return locked;
  uint64_t asked = lock_clock();
  atomic_fetch_add(&lock->waiting, 1);
  while ((locked = ec_lock_try(lock)) == EC_LOCKED_BY_OTHER) {
    const bool undisturbed = sleep_while_locked(lock);
    if (!stop || (undisturbed && lock_clock() - asked < WHILE)) continue;
    if (stop(user)) {
      locked = EC_LOCK_INTERRUPTED;
      wake_one(lock); /* passes on a wake-up that this thread may have consumed */
      break;
    }
    asked = lock_clock();
  }
  atomic_fetch_sub(&lock->waiting, 1);
  return locked;
}

/* A waiter increments `waiting` before it reads the owner; a release clears the owner before it
 * reads `waiting`. So at least one of them sees the other. */
void ec_lock_release(ec_lock *lock) {
  atomic_store(&lock->owner, 0);
  if (atomic_load(&lock->waiting)) wake_one(lock);
}

/* ---- mutexes ----------------------------------------------------------------------------- */

void ec_mutex_lock(ec_mutex mutex) {
  pthread_once(&once, init_mutexes);
  pthread_mutex_lock(&mutexes[mutex]);
}

void ec_mutex_unlock(ec_mutex mutex) { pthread_mutex_unlock(&mutexes[mutex]); }
