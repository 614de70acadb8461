/* The library of the engine: its path, its functions, its release, its errors. */
#include "library.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { FIRST_YEAR = 2025 }; /* earlier releases number dtypes in another way */

#define EXTRA "pip install 'executorch_c[openvino]'"

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static char library_path[4096];
static eco_library library;
static void *opened;      /* of dlopen */
static pid_t opened_by;   /* the process that opened it */
static bool is_lost;      /* another thread was opening it when this process was forked */

/* ---- forks ------------------------------------------------------------------------------- */

/* A child has neither the engine's threads nor the one that holds the mutex. A fork does not wait
 * for that one: code of the library that it opens may fork. */
static void in_child(void) {
  if (pthread_mutex_trylock(&mutex) == 0) {
    pthread_mutex_unlock(&mutex);
    return;
  }
  pthread_mutex_init(&mutex, NULL);
  is_lost = true;
}

static void watch_forks(void) { pthread_atfork(NULL, NULL, in_child); }

static void lock_library(void) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  pthread_once(&once, watch_forks);
  pthread_mutex_lock(&mutex);
}

bool eco_library_is_usable(void) { return opened_by == getpid(); }

/* ---- the library ------------------------------------------------------------------------- */

bool eco_library_set_path(const char *path) {
  const size_t size = strlen(path) + 1;
  lock_library();
  const bool fits = size <= sizeof library_path && (!opened || strcmp(path, library_path) == 0);
  if (fits) memcpy(library_path, path, size);
  pthread_mutex_unlock(&mutex);
  return fits;
}

const char *eco_library_path(void) { return library_path; }

static uint32_t find_symbols(const ec_backend_call *c, void *handle) {
  const char *missing = NULL;
  void *entry;
#define EC_OV(result, name, parameters)                                                            \
  entry = dlsym(handle, "ov_" #name);                                                              \
  if (!entry && !missing) missing = "ov_" #name;                                                   \
  memcpy(&library.name, &entry, sizeof entry);
#include "symbols.def"
#undef EC_OV
  if (!missing) return EC_BACKEND_OK;
  return EC_BACKEND_FAIL(c, EC_BACKEND_INCOMPATIBLE,
                         "%s has no function %s: it is not the C library of "
                         "OpenVINO %d or later",
                         library_path, missing, FIRST_YEAR);
}

static uint32_t read_version(const ec_backend_call *c) {
  eco_version version = {0};
  if (library.get_openvino_version(&version) != 0 || !version.build)
    return EC_BACKEND_FAIL(c, EC_BACKEND_INCOMPATIBLE, "%s does not state its version",
                           library_path);
  snprintf(library.version, sizeof library.version, "%s", version.build);
  library.version_free(&version);
  library.year = (int)strtol(library.version, NULL, 10);
  if (library.year >= FIRST_YEAR) return EC_BACKEND_OK;
  return EC_BACKEND_FAIL(c, EC_BACKEND_INCOMPATIBLE, "OpenVINO is %s, expected %d or later: " EXTRA,
                         library.version, FIRST_YEAR);
}

static uint32_t open_locked(const ec_backend_call *c) {
  if (is_lost || (opened && !eco_library_is_usable()))
    return EC_BACKEND_FAIL(
        c, EC_BACKEND_INVALID_STATE,
        "OpenVINO was %s when this process was forked, and its threads are lost: "
        "load the method in a new process (multiprocessing: \"spawn\")",
        opened ? "in use" : "being opened");
  if (opened) return EC_BACKEND_OK;
  if (!library_path[0])
    return EC_BACKEND_FAIL(c, EC_BACKEND_NOT_FOUND, "the package openvino is missing: " EXTRA);
  void *handle = dlopen(library_path, RTLD_NOW | RTLD_LOCAL);
  if (!handle)
    return EC_BACKEND_FAIL(c, EC_BACKEND_NOT_FOUND, "OpenVINO cannot be loaded: %s (" EXTRA ")",
                           dlerror());
  uint32_t status = find_symbols(c, handle);
  if (!status) status = read_version(c);
  if (status) {
    dlclose(handle);
    return status;
  }
  opened_by = getpid();
  opened = handle; /* stays open: the engine has threads */
  return EC_BACKEND_OK;
}

uint32_t eco_library_open(const ec_backend_call *c, const eco_library **out) {
  lock_library();
  const uint32_t status = open_locked(c);
  pthread_mutex_unlock(&mutex);
  *out = &library;
  return status;
}

uint32_t eco_library_fail(const ec_backend_call *c, const eco_library *lib, uint32_t status,
                          const char *what) {
  const char *text = lib->get_last_err_msg();
  char line[512];
  size_t used = 0;
  for (const char *at = text ? text : "no message"; *at && used < sizeof line - 1; at++) {
    const char byte = *at == '\n' ? ' ' : *at; /* its messages are stacks of lines */
    if (byte != ' ' || (used && line[used - 1] != ' ')) line[used++] = byte;
  }
  while (used && line[used - 1] == ' ') used--;
  line[used] = 0;
  if (text) lib->free(text);
  return EC_BACKEND_FAIL(c, status, "%s: OpenVINO %s: %s", what, lib->version, line);
}
