/* Backend options of the process: set and read. */
#include "runtime/options.h"

#include <pthread.h>
#include <string.h>

#include "backend/registry.h"
#include "core/alloc.h"
#include "core/lock.h"
#include "runtime/host_call.h"

/* A string from a backend is valid until the option is set again, so the lock excludes setters. */
static ec_lock process_lock;
static pthread_once_t process_lock_once = PTHREAD_ONCE_INIT;

static void init_lock(void) { ec_lock_init(&process_lock); }

static ec_status acquire_lock(ec_error *err) {
  pthread_once(&process_lock_once, init_lock);
  switch (ec_lock_wait(&process_lock, NULL, NULL)) {
  case EC_LOCKED: return EC_OK;
  case EC_LOCKED_BY_NOBODY:
    return ec_fail(err, EC_INVALID_STATE,
                   "options were being set in another thread when this process was forked");
  default:
    return ec_fail(err, EC_INVALID_STATE, "options are being set or read in this thread");
  }
}

static ec_status fail_unknown_key(const ec_backend *backend, const char *key, ec_error *err) {
  const char *const *keys = EC_BACKEND_MEMBER(backend, option_keys);
  ec_fail(err, EC_NOT_FOUND, "backend '%s' has no option '%s'; it has ", backend->id, key);
  for (size_t i = 0; keys && keys[i]; i++)
    ec_error_append(err, "%s'%s'", i ? ", " : "", keys[i]);
  if (!keys || !keys[0]) ec_error_append(err, "none that it names");
  return EC_NOT_FOUND;
}

static ec_status copy_option_value(ec_backend_option *option, ec_error *err) {
  if (option->kind == EC_BACKEND_BOOL || option->kind == EC_BACKEND_INT ||
      option->kind == EC_BACKEND_DOUBLE)
    return EC_OK;
  if (option->kind != EC_BACKEND_STRING)
    return ec_fail(err, EC_INTERNAL, "the backend returned a value of kind %u", option->kind);
  const char *text = option->as.string ? option->as.string : "";
  const size_t size = strlen(text) + 1;
  char *copy = ec_alloc(size);
  if (!copy) return ec_fail(err, EC_MEMORY_ALLOCATION_FAILED, "no memory for an option");
  option->as.string = memcpy(copy, text, size);
  return EC_OK;
}

static uint32_t call_backend(const ec_backend *backend, ec_backend_option *option, bool set,
                             ec_error *err) {
  ec_arena scratch = {0};
  ec_host_call call = ec_host_call_of(NULL, &scratch, err);
  ec_error_clear(err);
  EC_TRY(acquire_lock(err));
  uint32_t status = set ? backend->set_option(backend, &ec_host_table, &call, option)
                        : backend->get_option(backend, &ec_host_table, &call, option);
  if (status == EC_OK && !set) status = (uint32_t)copy_option_value(option, err);
  ec_lock_release(&process_lock);
  ec_arena_deinit(&scratch);
  return status;
}

static ec_status access_option(const char *id, ec_backend_option *option, bool set, ec_error *err) {
  const ec_backend *backend;
  ec_error own; /* shows whether the backend set a message */
  if (!err) err = &own;
  EC_TRY(ec_backend_registered(id, &backend, err)); /* an option may make it available */
  if (set ? !EC_BACKEND_MEMBER(backend, set_option) : !EC_BACKEND_MEMBER(backend, get_option))
    return ec_fail(err, EC_NOT_SUPPORTED, "backend '%s' has no options of the process that can be "
                   "%s", id, set ? "set" : "read");
  uint32_t status = call_backend(backend, option, set, err);
  if (status == EC_OK) return EC_OK;
  if (status == EC_NOT_FOUND && !err->message[0]) return fail_unknown_key(backend, option->key,
                                                                          err);
  if (err->message[0]) return ec_fail_in(err, (ec_status)status, "%s", id);
  return ec_fail_in(err, (ec_status)status, "%s: option '%s'", id, option->key);
}

ec_status ec_option_set(const char *id, const ec_backend_option *option, ec_error *err) {
  ec_backend_option copy = *option;
  return access_option(id, &copy, true, err);
}

ec_status ec_option_get(const char *id, ec_backend_option *option, ec_error *err) {
  return access_option(id, option, false, err);
}
