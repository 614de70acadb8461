/* Locks that survive a fork.
 *
 * One thread holds an ec_lock for the duration of a call, which may be long. A thread that already
 * holds it gets a status, not a deadlock. A wait can be interrupted. After a fork the owner may not
 * exist in the child; attempts to lock report that, too.
 *
 * An ec_mutex guards a few lines that call no other code. A fork waits until all of them are
 * free. */
#ifndef EC_CORE_LOCK_H
#define EC_CORE_LOCK_H

#include <semaphore.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

typedef struct ec_lock {
  _Atomic uint64_t owner; /* the owning thread; 0: none */
  atomic_uint waiting;    /* waiting threads, those lost in a fork included */
  sem_t released;         /* 1 after a release with a waiter */
} ec_lock;

typedef enum ec_locked {
  EC_LOCKED,             /* now held by this thread */
  EC_LOCKED_BY_OTHER,
  EC_LOCKED_BY_THIS,     /* already held by this thread */
  EC_LOCKED_BY_NOBODY,   /* the owner was lost in a fork: held for ever */
  EC_LOCK_INTERRUPTED    /* the wait was ended by `stop` */
} ec_locked;

void ec_lock_init(ec_lock *lock);
void ec_lock_deinit(ec_lock *lock);

/* Tries to acquire the lock without waiting. */
ec_locked ec_lock_try(ec_lock *lock);
/* Waits while another thread holds the lock. Calls `stop` (NULL: never) after each signal and
 * several times a second; true ends the wait. */
ec_locked ec_lock_wait(ec_lock *lock, bool (*stop)(void *user), void *user);
/* Releases a lock held by this thread. */
void ec_lock_release(ec_lock *lock);

bool ec_lock_is_mine(const ec_lock *lock);
/* True if no thread can acquire the lock again: see EC_LOCKED_BY_NOBODY. */
bool ec_lock_is_lost(const ec_lock *lock);

typedef enum ec_mutex { EC_MUTEX_OPERATORS, EC_MUTEX_BACKENDS, EC_MUTEX_COUNT } ec_mutex;

void ec_mutex_lock(ec_mutex mutex);
void ec_mutex_unlock(ec_mutex mutex);

#endif
