/* Options of backends, of a method and of the process: on their way to the backend. */
#include "runtime/options.h"

#include <pthread.h>
#include <string.h>

#include "core/alloc.h"
#include "runtime/impl.h"

/* ---- of a method ------------------------------------------------------------------------- */

static bool has_delegate(ec_fb_vec delegates, const char *id) {
  for (uint32_t i = 0; i < delegates.count; i++) {
    const char *found = ec_fb_string(ec_fb_vec_table(delegates, i), EC_PTE_BackendDelegate_id);
    if (found && strcmp(found, id) == 0) return true;
  }
  return false;
}

static ec_status check_used(ec_fb_vec delegates, const char *id, ec_error *err) {
  enum { MOST = 32 }; /* backends that are named: each is looked for among those before */
  if (has_delegate(delegates, id)) return EC_OK;
  if (!delegates.count)
    return ec_fail(err, EC_INVALID_ARGUMENT,
                   "options for backend '%s', but the method has no delegates", id);
  ec_fail(err, EC_INVALID_ARGUMENT, "options for backend '%s', but the method's delegates are of ",
          id);
  for (uint32_t i = 0, named = 0; i < delegates.count && named < MOST; i++) {
    const char *found = ec_fb_string(ec_fb_vec_table(delegates, i), EC_PTE_BackendDelegate_id);
    ec_fb_vec before = delegates;
    before.count = i;
    if (found && !has_delegate(before, found))
      ec_error_append(err, "%s'%s'", named++ ? ", " : "", found);
  }
  return EC_INVALID_ARGUMENT;
}

static ec_status copy_text(ec_method *m, const char **text, ec_error *err) {
  char *copy;
  const size_t size = strlen(*text) + 1;
  EC_TRY(ec_arena_array(&m->arena, size, 1, "an option", &copy, err));
  memcpy(copy, *text, size);
  *text = copy;
  return EC_OK;
}

static ec_status copy_options(ec_method *m, ec_backend_options *options, ec_error *err) {
  ec_backend_option *items;
  EC_TRY(copy_text(m, &options->id, err));
  EC_TRY(ec_arena_array(&m->arena, options->count, sizeof *items, "options", &items, err));
  if (options->count) memcpy(items, options->items, options->count * sizeof *items);
  options->items = items;
  for (size_t i = 0; i < options->count; i++) {
    EC_TRY(copy_text(m, &items[i].key, err));
    if (items[i].kind == EC_BACKEND_STRING) EC_TRY(copy_text(m, &items[i].as.string, err));
  }
  return EC_OK;
}

ec_status ec_load_options(ec_method *m, ec_fb_vec delegates, ec_error *err) {
  const size_t count = m->options.backend_count;
  ec_backend_options *copies;
  if (!count) return EC_OK;
  EC_TRY(ec_arena_array(&m->arena, count, sizeof *copies, "options", &copies, err));
  memcpy(copies, m->options.backends, count * sizeof *copies);
  m->options.backends = copies;
  for (size_t i = 0; i < count; i++) {
    EC_TRY(check_used(delegates, copies[i].id, err));
    EC_TRY(copy_options(m, &copies[i], err));
  }
  return EC_OK;
}

ec_status ec_delegate_options(const ec_method *m, ec_delegate *d, ec_error *err) {
  for (size_t i = 0; i < m->options.backend_count; i++) {
    const ec_backend_options *options = &m->options.backends[i];
    if (strcmp(options->id, d->backend->id) != 0) continue;
    if (options->count && d->backend->struct_size <= offsetof(ec_backend, set_option))
      return ec_fail(err, EC_NOT_SUPPORTED, "backend '%s' has no options", d->backend->id);
    d->init.options = options->items;
    d->init.option_count = options->count;
  }
  return EC_OK;
}

/* ---- of the process ---------------------------------------------------------------------- */

/* A string that a backend gives lives until the option is set again: nobody sets one meanwhile. */
static ec_lock lock;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void start(void) { ec_lock_init(&lock); }

static ec_status take_lock(ec_error *err) {
  pthread_once(&once, start);
  switch (ec_lock_wait(&lock, NULL, NULL)) {
  case EC_LOCKED: return EC_OK;
  case EC_LOCKED_BY_NOBODY:
    return ec_fail(err, EC_INVALID_STATE,
                   "options were being set in another thread when this process was forked");
  default:
    return ec_fail(err, EC_INVALID_STATE, "options are being set or read in this thread");
  }
}

static ec_status unknown_key(const ec_backend *backend, const char *key, ec_error *err) {
  const char *const *keys = EC_BACKEND_MEMBER(backend, option_keys);
  ec_fail(err, EC_NOT_FOUND, "backend '%s' has no option '%s'; it has ", backend->id, key);
  for (size_t i = 0; keys && keys[i]; i++)
    ec_error_append(err, "%s'%s'", i ? ", " : "", keys[i]);
  if (!keys || !keys[0]) ec_error_append(err, "none that it names");
  return EC_NOT_FOUND;
}

static ec_status copy_value(ec_backend_option *option, ec_error *err) {
  if (option->kind == EC_BACKEND_BOOL || option->kind == EC_BACKEND_INT ||
      option->kind == EC_BACKEND_DOUBLE)
    return EC_OK;
  if (option->kind != EC_BACKEND_STRING)
    return ec_fail(err, EC_INTERNAL, "the backend gives a value of kind %u", option->kind);
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
  EC_TRY(take_lock(err));
  uint32_t status = set ? backend->set_option(backend, &ec_host_table, &call, option)
                        : backend->get_option(backend, &ec_host_table, &call, option);
  if (status == EC_OK && !set) status = (uint32_t)copy_value(option, err);
  ec_lock_release(&lock);
  ec_arena_deinit(&scratch);
  return status;
}

static ec_status access_option(const char *id, ec_backend_option *option, bool set, ec_error *err) {
  const ec_backend *backend;
  ec_error own; /* says whether the backend said something */
  if (!err) err = &own;
  EC_TRY(ec_backend_require(id, &backend, err));
  if (set ? !EC_BACKEND_MEMBER(backend, set_option) : !EC_BACKEND_MEMBER(backend, get_option))
    return ec_fail(err, EC_NOT_SUPPORTED, "backend '%s' has no options of the process that can be "
                   "%s", id, set ? "set" : "read");
  uint32_t status = call_backend(backend, option, set, err);
  if (status == EC_OK) return EC_OK;
  if (status == EC_NOT_FOUND && !err->message[0]) return unknown_key(backend, option->key, err);
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
