/* Options: "library" (of the process only), "precision", "num_threads", "profile". */
#include "options.h"

#include <pthread.h>
#include <string.h>

#include "library.h"

enum { LIBRARY, PRECISION, THREADS, PROFILE, OPTIONS };
enum { MAX_THREADS = 1024 };

const char *const eco_option_keys[] = {
  [LIBRARY] = "library", [PRECISION] = "precision", [THREADS] = "num_threads",
  [PROFILE] = "profile", [OPTIONS] = NULL};
static const char *const precisions[] = {"f32", "bf16", "f16", "auto"};

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static eco_options of_process = {.precision = "f32"};

static int find_option(const char *key) {
  int which = 0;
  while (which < OPTIONS && strcmp(key, eco_option_keys[which]) != 0) which++;
  return which;
}

static uint32_t refuse(const ec_backend_call *c, int which, const char *expected) {
  return EC_BACKEND_FAIL(c, EC_BACKEND_INVALID_ARGUMENT, "option '%s': expected %s",
                         eco_option_keys[which], expected);
}

static uint32_t set_precision(const ec_backend_call *c, const ec_backend_option *option,
                              eco_options *out) {
  const bool is_text = option->kind == EC_BACKEND_STRING;
  for (size_t i = 0; is_text && i < sizeof precisions / sizeof *precisions; i++) {
    if (strcmp(option->as.string, precisions[i]) != 0) continue;
    strcpy(out->precision, precisions[i]);
    return EC_BACKEND_OK;
  }
  return refuse(c, PRECISION, "\"f32\", \"bf16\", \"f16\", or \"auto\" (the engine's default)");
}

/* Reads one option, except for the library. */
static uint32_t read_one(const ec_backend_call *c, const ec_backend_option *option,
                         eco_options *out) {
  switch (find_option(option->key)) {
  case PRECISION: return set_precision(c, option, out);
  case THREADS:
    if (option->kind != EC_BACKEND_INT || option->as.i < 0 || option->as.i > MAX_THREADS)
      return refuse(c, THREADS, "0 (the method's) to 1024 threads");
    out->num_threads = option->as.i;
    return EC_BACKEND_OK;
  case PROFILE:
    if (option->kind != EC_BACKEND_BOOL) return refuse(c, PROFILE, "a bool");
    out->profile = option->as.b;
    return EC_BACKEND_OK;
  case LIBRARY:
    return EC_BACKEND_FAIL(
        c, EC_BACKEND_INVALID_ARGUMENT,
        "option 'library' is of the process: set it with backend_registry.set_option");
  default: return EC_BACKEND_NOT_FOUND;
  }
}

uint32_t eco_options_read(const ec_backend_call *c, const ec_backend_init *what, eco_options *out) {
  pthread_mutex_lock(&mutex);
  *out = of_process;
  pthread_mutex_unlock(&mutex);
  for (size_t i = 0; i < what->option_count; i++) {
    const uint32_t status = read_one(c, &what->options[i], out);
    if (status == EC_BACKEND_NOT_FOUND)
      return EC_BACKEND_FAIL(c, EC_BACKEND_INVALID_ARGUMENT,
                             "unknown option '%s', expected precision, num_threads or profile",
                             what->options[i].key);
    EC_BACKEND_TRY(status);
  }
  return EC_BACKEND_OK;
}

static uint32_t set_library(const ec_backend_call *c, const ec_backend_option *option) {
  if (option->kind != EC_BACKEND_STRING) return refuse(c, LIBRARY, "the path of libopenvino_c.so");
  if (eco_library_set_path(option->as.string)) return EC_BACKEND_OK;
  return EC_BACKEND_FAIL(c, EC_BACKEND_INVALID_STATE, "option 'library': %s is loaded, and stays",
                         eco_library_path());
}

uint32_t eco_options_set(const ec_backend_call *c, const ec_backend_option *option) {
  if (find_option(option->key) == LIBRARY) return set_library(c, option);
  pthread_mutex_lock(&mutex);
  const uint32_t status = read_one(c, option, &of_process);
  pthread_mutex_unlock(&mutex);
  return status;
}

uint32_t eco_options_get(ec_backend_option *option) {
  uint32_t status = EC_BACKEND_OK;
  pthread_mutex_lock(&mutex);
  switch (find_option(option->key)) {
  case LIBRARY:
    option->kind = EC_BACKEND_STRING;
    option->as.string = eco_library_path();
    break;
  case PRECISION:
    option->kind = EC_BACKEND_STRING;
    option->as.string = of_process.precision;
    break;
  case THREADS:
    option->kind = EC_BACKEND_INT;
    option->as.i = of_process.num_threads;
    break;
  case PROFILE:
    option->kind = EC_BACKEND_BOOL;
    option->as.b = of_process.profile;
    break;
  default: status = EC_BACKEND_NOT_FOUND;
  }
  pthread_mutex_unlock(&mutex);
  return status;
}
