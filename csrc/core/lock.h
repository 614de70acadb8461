/* Locks that survive a fork.
 *
 * An ec_lock is held by one thread at a time for as long as a call runs, which may be long. A
 * thread that has it is told so instead of waiting for itself; who waits for it can be interrupted;
 * and after a fork, where the thread that has it may not exist, whoever asks is told that, too.
 *
 * An ec_mutex guards a few lines that call nobody. A fork waits until all of them are free. */
#ifndef EC_CORE_LOCK_H
#define EC_CORE_LOCK_H

#include <semaphore.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

typedef struct ec_lock {
  _Atomic uint64_t owner; /* the thread that has it; 0: nobody */
  atomic_uint waiting;    /* threads, those among them that a fork has left behind */
  sem_t released;         /* 1 after a release that somebody waits for */
} ec_lock;

typedef enum ec_locked {
  EC_LOCKED,             /* this thread has it now */
  EC_LOCKED_BY_OTHER,
  EC_LOCKED_BY_THIS,     /* this thread had it before */
  EC_LOCKED_BY_NOBODY,   /* by a thread of the process that this one was forked from: for ever */
  EC_LOCK_INTERRUPTED    /* by the caller, while it waited */
} ec_locked;

void ec_lock_init(ec_lock *lock);
void ec_lock_deinit(ec_lock *lock);

/* Does not wait. */
ec_locked ec_lock_try(ec_lock *lock);
/* Waits while another thread has it; asks `stop` (NULL: nobody) when a signal has arrived, and some
 * times a second, whether to give up. */
ec_locked ec_lock_wait(ec_lock *lock, bool (*stop)(void *user), void *user);
/* Of a lock that this thread has. */
void ec_lock_release(ec_lock *lock);

bool ec_lock_is_mine(const ec_lock *lock);
/* True where no thread can acquire the lock again: see EC_LOCKED_BY_NOBODY. */
bool ec_lock_is_lost(const ec_lock *lock);

typedef enum ec_mutex { EC_MUTEX_OPERATORS, EC_MUTEX_BACKENDS, EC_MUTEX_COUNT } ec_mutex;

void ec_mutex_lock(ec_mutex mutex);
void ec_mutex_unlock(ec_mutex mutex);

#endif
