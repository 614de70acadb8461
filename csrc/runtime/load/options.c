/* Options of a method for its backends: checked, copied, passed to the delegates. */
#include "runtime/load/options.h"

#include <string.h>

#include "core/small.h"

static bool has_delegate(ec_fb_vec delegates, const char *id) {
  for (uint32_t i = 0; i < delegates.count; i++) {
    const char *name = ec_fb_string(ec_fb_vec_table(delegates, i), EC_PTE_BackendDelegate_id);
    if (name && strcmp(name, id) == 0) return true;
  }
  return false;
}

static ec_status check_used(ec_fb_vec delegates, const char *id, ec_error *err) {
  enum { MAX_BACKENDS = 32 }; /* bounds a quadratic search for duplicates */
  if (has_delegate(delegates, id)) return EC_OK;
  if (EC_IS_SMALL)
    return ec_fail(err, EC_INVALID_ARGUMENT, "options, but no delegate, of backend '%s'", id);
  if (!delegates.count)
    return ec_fail(err, EC_INVALID_ARGUMENT,
                   "options for backend '%s', but the method has no delegates", id);
  ec_fail(err, EC_INVALID_ARGUMENT, "options for backend '%s', but the method's delegates are of ",
          id);
  for (uint32_t i = 0, named = 0; i < delegates.count && named < MAX_BACKENDS; i++) {
    const char *name = ec_fb_string(ec_fb_vec_table(delegates, i), EC_PTE_BackendDelegate_id);
    ec_fb_vec before = delegates;
    before.count = i;
    if (name && !has_delegate(before, name))
      ec_error_append(err, "%s'%s'", named++ ? ", " : "", name);
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

ec_status ec_load_options(ec_method *m, const ec_rows *rows, ec_error *err) {
  const size_t count = m->options.backend_count;
  ec_backend_options *copies;
  if (!count) return EC_OK;
  EC_TRY(ec_arena_array(&m->arena, count, sizeof *copies, "options", &copies, err));
  memcpy(copies, m->options.backends, count * sizeof *copies);
  m->options.backends = copies;
  for (size_t i = 0; i < count; i++) {
    EC_TRY(check_used(rows->delegates, copies[i].id, err));
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
