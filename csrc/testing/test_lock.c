/* core/lock.h: ownership, waiting and interrupts, and the children of forks, from a thread with and
 * one without the lock. */
#include "core/lock.h"

#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#include "testing/test.h"

static ec_lock lock;

/* A thread that holds the lock between two barriers. */
typedef struct holder {
  pthread_t thread;
  pthread_barrier_t taken, enough;
} holder;

static void *hold(void *user) {
  holder *h = user;
  const ec_locked locked = ec_lock_wait(&lock, NULL, NULL);
  pthread_barrier_wait(&h->taken);
  pthread_barrier_wait(&h->enough);
  if (locked == EC_LOCKED) ec_lock_release(&lock);
  return NULL;
}

static void begin_to_hold(holder *h) {
  pthread_barrier_init(&h->taken, NULL, 2);
  pthread_barrier_init(&h->enough, NULL, 2);
  pthread_create(&h->thread, NULL, hold, h);
  pthread_barrier_wait(&h->taken);
}

static void end_to_hold(holder *h) {
  pthread_barrier_wait(&h->enough);
  pthread_join(h->thread, NULL);
}

static bool count_to(void *user) {
  int *left = user;
  return --*left == 0;
}

void ec_test_lock(ec_test *t) {
  holder other;
  int asked = 2;
  ec_lock_init(&lock);
  EC_CHECK(t, !ec_lock_is_mine(&lock) && ec_lock_try(&lock) == EC_LOCKED);
  EC_CHECK(t, ec_lock_is_mine(&lock) && !ec_lock_is_lost(&lock));
  EC_CHECK(t, ec_lock_try(&lock) == EC_LOCKED_BY_THIS);
  EC_CHECK(t, ec_lock_wait(&lock, NULL, NULL) == EC_LOCKED_BY_THIS);
  ec_lock_release(&lock);
  begin_to_hold(&other);
  EC_CHECK(t, !ec_lock_is_mine(&lock) && ec_lock_try(&lock) == EC_LOCKED_BY_OTHER);
  EC_CHECK(t, ec_lock_wait(&lock, count_to, &asked) == EC_LOCK_INTERRUPTED && asked == 0);
  end_to_hold(&other);
  EC_CHECK(t, ec_lock_wait(&lock, count_to, &asked) == EC_LOCKED);
  ec_lock_release(&lock);
  ec_lock_deinit(&lock);
}

static void *add_often(void *user) {
  int *sum = user;
  for (int i = 0; i < 20000; i++) {
    if (ec_lock_wait(&lock, NULL, NULL) != EC_LOCKED) return NULL;
    ++*sum;
    ec_lock_release(&lock);
  }
  return NULL;
}

void ec_test_lock_many_threads(ec_test *t) {
  pthread_t threads[8];
  int sum = 0;
  ec_lock_init(&lock);
  for (size_t i = 0; i < 8; i++) pthread_create(&threads[i], NULL, add_often, &sum);
  for (size_t i = 0; i < 8; i++) pthread_join(threads[i], NULL);
  EC_CHECK(t, sum == 8 * 20000);
  ec_lock_deinit(&lock);
}

/* Runs a check in a child; 0 means success. */
static void in_child(ec_test *t, int (*check)(void)) {
  int status = -1;
  pid_t child = fork();
  if (child == 0) {
    alarm(20);
    _exit(check());
  }
  EC_CHECK(t, child > 0 && waitpid(child, &status, 0) == child);
  EC_CHECK(t, WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

static int is_lost(void) {
  if (!ec_lock_is_lost(&lock) || ec_lock_try(&lock) != EC_LOCKED_BY_NOBODY) return 1;
  return ec_lock_wait(&lock, NULL, NULL) == EC_LOCKED_BY_NOBODY ? 0 : 2;
}

static int is_ours(void) {
  int sum = 0;
  pthread_t thread;
  if (ec_lock_is_lost(&lock) || ec_lock_try(&lock) != EC_LOCKED_BY_THIS) return 1;
  ec_lock_release(&lock);
  pthread_create(&thread, NULL, add_often, &sum); /* works between threads of the child */
  add_often(&sum);
  pthread_join(thread, NULL);
  return sum == 2 * 20000 ? 0 : 2;
}

/* In a grandchild the child's lock owner does not exist, but the forking thread does. */
static int forks_again(void) {
  ec_test t = {"lock_forks", 0};
  holder other;
  in_child(&t, is_ours);
  ec_lock_release(&lock);
  begin_to_hold(&other);
  in_child(&t, is_lost);
  end_to_hold(&other);
  return t.failures;
}

void ec_test_lock_forks(ec_test *t) {
  holder other;
  ec_lock_init(&lock);
  begin_to_hold(&other);
  in_child(t, is_lost);
  end_to_hold(&other);
  ec_lock_try(&lock);
  in_child(t, is_ours);
  in_child(t, forks_again);
  ec_lock_release(&lock);
  ec_lock_deinit(&lock);
}

static void *use_mutex(void *user) {
  atomic_bool *stop = user;
  while (!atomic_load(stop)) {
    ec_mutex_lock(EC_MUTEX_OPERATORS);
    ec_mutex_unlock(EC_MUTEX_OPERATORS);
  }
  return NULL;
}

static int mutex_is_free(void) {
  ec_mutex_lock(EC_MUTEX_OPERATORS);
  ec_mutex_unlock(EC_MUTEX_OPERATORS);
  return 0;
}

void ec_test_lock_mutexes_in_forks(ec_test *t) {
  atomic_bool stop = false;
  pthread_t threads[2];
  for (size_t i = 0; i < 2; i++) pthread_create(&threads[i], NULL, use_mutex, &stop);
  for (int i = 0; i < 200; i++) in_child(t, mutex_is_free);
  atomic_store(&stop, true);
  for (size_t i = 0; i < 2; i++) pthread_join(threads[i], NULL);
}
