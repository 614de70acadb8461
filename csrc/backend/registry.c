/* Registered backends: a small table guarded by a lock. */
#include "backend/registry.h"

#include <string.h>

#include "core/lock.h"
#include "core/small.h"
#include "format/kind.h"

#define EC_DTYPE(NAME, id, ...)                                                                    \
  _Static_assert(EC_DTYPE_##NAME == (id), "backend.h has another number of " #NAME);
#include "core/dtype.def"
#undef EC_DTYPE

static const ec_backend *backends[EC_MAX_BACKENDS];
static size_t count;

/* Backends of the official flow: a sentence about what their programs need. */
static const struct {
  const char *id, *text;
} known[] = {
#define EC_KNOWN_BACKEND(id, engine, needs) {id, id " is " engine ", which needs " needs},
#include "backend/known.def"
#undef EC_KNOWN_BACKEND
};

static const struct {
  const char *magic, *name, *id, *what;
} packages[] = {
#define EC_PACKAGE(magic, name, id, what) {magic, name, id, what},
#include "backend/packages.def"
#undef EC_PACKAGE
};

static ec_status check_backend(const ec_backend *b, ec_error *err) {
  if (!b || b->abi_version != EC_BACKEND_ABI_VERSION)
    return ec_fail(err, EC_INVALID_ARGUMENT, "backend has ABI version %u, expected %u",
                   b ? b->abi_version : 0, EC_BACKEND_ABI_VERSION);
  const size_t least = offsetof(ec_backend, set_option); /* the first optional member */
  const bool whole = b->struct_size >= least;
  if (!whole || !b->id || !b->id[0] || !b->init || !b->execute)
    return ec_fail(err, EC_INVALID_ARGUMENT,
                   "backend '%s' is incomplete: id, init and execute are needed, and a struct of "
                   "at least %zu bytes (found %zu)",
                   whole && b->id ? b->id : "?", least, b->struct_size);
  return EC_OK;
}

static const ec_backend *find_locked(const char *id) {
  for (size_t i = 0; i < count; i++)
    if (strcmp(backends[i]->id, id) == 0) return backends[i];
  return NULL;
}

ec_status ec_backend_register(const ec_backend *backend, ec_error *err) {
  EC_TRY(check_backend(backend, err));
  ec_status status = EC_OK;
  ec_mutex_lock(EC_MUTEX_BACKENDS);
  const ec_backend *same = find_locked(backend->id);
  if (same && same != backend)
    status = ec_fail(err, EC_REGISTRATION_EXISTS, "another backend is registered as '%s'",
                     backend->id);
  else if (!same && count == EC_MAX_BACKENDS)
    status = ec_fail(err, EC_REGISTRATION_EXCEEDING_MAX, "more than %d backends", EC_MAX_BACKENDS);
  else if (!same)
    backends[count++] = backend;
  ec_mutex_unlock(EC_MUTEX_BACKENDS);
  return status;
}

void ec_backend_unregister(const ec_backend *backend) {
  ec_mutex_lock(EC_MUTEX_BACKENDS);
  size_t kept = 0;
  for (size_t i = 0; i < count; i++)
    if (backends[i] != backend) backends[kept++] = backends[i];
  count = kept;
  ec_mutex_unlock(EC_MUTEX_BACKENDS);
}

const ec_backend *ec_backend_find(const char *id) {
  ec_mutex_lock(EC_MUTEX_BACKENDS);
  const ec_backend *backend = find_locked(id);
  ec_mutex_unlock(EC_MUTEX_BACKENDS);
  return backend;
}

size_t ec_backend_count(void) {
  ec_mutex_lock(EC_MUTEX_BACKENDS);
  size_t n = count;
  ec_mutex_unlock(EC_MUTEX_BACKENDS);
  return n;
}

const ec_backend *ec_backend_at(size_t index) {
  ec_mutex_lock(EC_MUTEX_BACKENDS);
  const ec_backend *backend = index < count ? backends[index] : NULL;
  ec_mutex_unlock(EC_MUTEX_BACKENDS);
  return backend;
}

bool ec_backend_is_available(const char *id) {
  const ec_backend *backend = ec_backend_find(id);
  return backend && (!backend->is_available || backend->is_available(backend));
}

const char *ec_backend_lacks(const char *id) {
  const ec_backend *backend = ec_backend_find(id);
  if (backend) {
    const char *(*why)(const ec_backend *) = EC_BACKEND_MEMBER(backend, why_unavailable);
    return why && !ec_backend_is_available(id) ? why(backend) : NULL;
  }
  for (size_t i = 0; !EC_IS_SMALL && i < sizeof known / sizeof *known; i++)
    if (strcmp(known[i].id, id) == 0) return known[i].text;
  return NULL;
}

const char *ec_backend_of_package(const uint8_t *data, size_t size, const char **what) {
  enum { LEAST_BYTES = 64 }; /* as of a program */
  for (size_t i = 0; i < sizeof packages / sizeof *packages && size >= LEAST_BYTES; i++) {
    const size_t length = strlen(packages[i].magic);
    if (memcmp(data, packages[i].magic, length) != 0) continue;
    if (!ec_kind_has_name(data, size, packages[i].name)) continue;
    *what = packages[i].what;
    return ec_kind_is_other_archive(data, size) ? NULL : packages[i].id;
  }
  return NULL;
}

/* The NotFound message of a backend that is not registered: what a known one needs; of another id,
 * which may be a mistake, those that are registered. */
static ec_status fail_unregistered(const char *id, ec_error *err) {
  const char *lacks = ec_backend_lacks(id);
  ec_fail(err, EC_NOT_FOUND, "backend '%s' is not registered", id);
  if (lacks) ec_error_append(err, ": %s", lacks);
  else ec_error_append(err, "; registered: %s", ec_backend_count() ? "" : "none");
  for (size_t i = 0; !lacks && i < ec_backend_count(); i++)
    ec_error_append(err, "%s'%s'", i ? ", " : "", ec_backend_at(i)->id);
  return EC_NOT_FOUND;
}

ec_status ec_backend_require(const char *id, const ec_backend **out, ec_error *err) {
  *out = ec_backend_find(id);
  if (*out && ec_backend_is_available(id)) return EC_OK;
  if (!*out) return fail_unregistered(id, err);
  const char *lacks = ec_backend_lacks(id);
  return ec_fail(err, EC_NOT_FOUND, "backend '%s' is not available on this machine%s%s", id,
                 lacks ? ": " : "", lacks ? lacks : "");
}

ec_status ec_backend_registered(const char *id, const ec_backend **out, ec_error *err) {
  *out = ec_backend_find(id);
  return *out ? EC_OK : fail_unregistered(id, err);
}
