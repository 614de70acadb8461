/* core/threads.h: every index runs once, pools are shared and started at first use, loops inside
 * loops, and the child of a fork. All of it also holds without pthreadpool. */
#include "core/threads.h"

#include <pthread.h>
#include <stdatomic.h>
#include <sys/wait.h>
#include <unistd.h>

#include "testing/test.h"

enum { COUNT = 10007 };

typedef struct marks {
  ec_threads *pool;
  size_t grain;
  atomic_int seen[COUNT];
  atomic_int short_pieces;
} marks;

static void mark(void *user, size_t begin, size_t end) {
  marks *m = user;
  for (size_t i = begin; i < end; i++) m->seen[i]++;
  if (end - begin < m->grain && end != COUNT) m->short_pieces++;
}

static void check_marks(ec_test *t, marks *m, int each) {
  int wrong = 0;
  for (size_t i = 0; i < COUNT; i++) wrong += m->seen[i] != each;
  EC_CHECK(t, wrong == 0);
  EC_CHECK(t, m->short_pieces == 0);
}

void ec_test_threads_every_index_once(ec_test *t) {
  const size_t grains[] = {1, 7, COUNT / 2, COUNT, 5 * COUNT};
  for (size_t threads = 1; threads < 6; threads++)
    for (size_t g = 0; g < sizeof grains / sizeof *grains; g++) {
      static marks m;
      memset(&m, 0, sizeof m);
      m.grain = grains[g];
      ec_threads *pool = ec_threads_acquire(threads);
      ec_threads_run(pool, COUNT, m.grain, mark, &m);
      ec_threads_run(pool, 0, m.grain, mark, &m);
      check_marks(t, &m, 1);
      ec_threads_release(pool);
    }
}

void ec_test_threads_pools_are_shared(ec_test *t) {
  static marks m;
  memset(&m, 0, sizeof m);
  ec_threads *two = ec_threads_acquire(2), *again = ec_threads_acquire(2);
  ec_threads *three = ec_threads_acquire(3);
  EC_CHECK(t, two == again);
  EC_CHECK(t, !ec_threads_is_started(two) && !ec_threads_is_started(three));
  ec_threads_run(two, COUNT, COUNT, mark, &m); /* one piece */
  EC_CHECK(t, !ec_threads_is_started(two));
  ec_threads_run(two, COUNT, 1, mark, &m);
#ifdef EC_HAVE_PTHREADPOOL
  EC_CHECK(t, two != three && ec_threads_is_started(two) && !ec_threads_is_started(three));
  EC_CHECK(t, ec_threads_count(two) == 2 && ec_threads_count(three) == 3);
  EC_CHECK(t, ec_threads_native(two) == ec_threads_native(again));
#else
  EC_CHECK(t, !two && ec_threads_count(two) == 1 && !ec_threads_native(two));
#endif
  EC_CHECK(t, !ec_threads_acquire(1) && ec_threads_count(NULL) == 1);
  ec_threads_release(two);
  ec_threads_release(again);
  ec_threads_release(three);
}

static void mark_inside(void *user, size_t begin, size_t end) {
  marks *m = user;
  for (size_t i = begin; i < end; i++) ec_threads_run(m->pool, COUNT, 1, mark, m);
}

void ec_test_threads_loops_in_loops(ec_test *t) {
  static marks m;
  memset(&m, 0, sizeof m);
  m.pool = ec_threads_acquire(3);
  ec_threads_run(m.pool, 8, 1, mark_inside, &m);
  check_marks(t, &m, 8);
  ec_threads_release(m.pool);
}

static void *loop_often(void *user) {
  marks *m = user;
  for (int i = 0; i < 50; i++) {
    ec_threads *pool = ec_threads_acquire(2);
    ec_threads_run(pool, COUNT, 64, mark, m);
    ec_threads_release(pool);
  }
  return NULL;
}

void ec_test_threads_from_many_threads(ec_test *t) {
  static marks m;
  pthread_t threads[4];
  memset(&m, 0, sizeof m);
  m.pool = ec_threads_acquire(2);
  for (size_t i = 0; i < 4; i++) pthread_create(&threads[i], NULL, loop_often, &m);
  for (size_t i = 0; i < 4; i++) pthread_join(threads[i], NULL);
  check_marks(t, &m, 200);
  ec_threads_release(m.pool);
}

/* Also the child of a fork during a loop, with the flag of the pool set. */
void ec_test_threads_after_fork(ec_test *t) {
  static marks m;
  memset(&m, 0, sizeof m);
  ec_threads *pool = ec_threads_acquire(3);
  ec_threads_run(pool, COUNT, 1, mark, &m);
  pid_t child = fork();
  if (child == 0) {
    alarm(20);
    const int forgotten = !ec_threads_is_started(pool);
    ec_threads_run(pool, COUNT, 1, mark, &m);
    int wrong = 0;
    for (size_t i = 0; i < COUNT; i++) wrong += m.seen[i] != 2;
    ec_threads_release(pool);
    _exit(wrong ? 1 : forgotten ? 0 : 2);
  }
  int status = -1;
  EC_CHECK(t, child > 0 && waitpid(child, &status, 0) == child);
  EC_CHECK(t, WIFEXITED(status) && WEXITSTATUS(status) == 0);
  ec_threads_run(pool, COUNT, 1, mark, &m);
  check_marks(t, &m, 2);
  ec_threads_release(pool);
}

void ec_test_threads_default(ec_test *t) {
  EC_CHECK(t, ec_threads_default() == ec_threads_cpus() && ec_threads_cpus() >= 1);
  ec_threads_set_default(3);
  ec_threads *pool = ec_threads_acquire(0), *same = ec_threads_acquire(3);
  EC_CHECK(t, pool == same && ec_threads_default() == ec_threads_count(pool));
  ec_threads_release(pool);
  ec_threads_release(same);
  ec_threads_set_default(1000000);
  EC_CHECK(t, ec_threads_default() <= EC_MAX_THREADS);
  ec_threads_set_default(0);
  EC_CHECK(t, ec_threads_default() == ec_threads_cpus());
}
