/* A child has one thread. Locks that another thread held would stay locked there for ever. */
#include "run/forks.h"

#include <pthread.h>

#include "run/cache.h"
#include "run/workspace.h"

static void before_fork(void) {
  ecx_workspaces_hold();
  ecx_caches_hold();
}

static void in_parent(void) {
  ecx_caches_free();
  ecx_workspaces_free();
}

static void in_child(void) {
  ecx_caches_free();
  ecx_workspaces_find_lost();
  ecx_workspaces_free();
}

static void watch(void) { pthread_atfork(before_fork, in_parent, in_child); }

void ecx_watch_forks(void) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  pthread_once(&once, watch);
}
