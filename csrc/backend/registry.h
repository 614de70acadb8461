/* The registry of backends, by the id stored in .pte files. */
#ifndef EC_BACKEND_REGISTRY_H
#define EC_BACKEND_REGISTRY_H

#include <stddef.h>

#include "core/error.h"
#include "executorch_c/backend.h"

enum { EC_MAX_BACKENDS = 64 };

/* Reads an optional member. Returns NULL if it is not set, or if the backend was compiled with an
 * older header: bytes after struct_size belong to others. */
#define EC_BACKEND_MEMBER(backend, member) \
  ((backend)->struct_size >= offsetof(ec_backend, member) + sizeof((backend)->member) \
       ? (backend)->member : NULL)

/* Registers a backend, which must outlive the process, unregistered or not. Registering the same
 * pointer again is allowed. Errors: RegistrationExists (another backend has the id),
 * InvalidArgument (wrong abi_version, missing members). A lock serialises calls. */
ec_status ec_backend_register(const ec_backend *backend, ec_error *err);

/* Removes a backend from the registry. Methods keep it. */
void ec_backend_unregister(const ec_backend *backend);

/* Returns NULL if no backend has that id. */
const ec_backend *ec_backend_find(const char *id);

/* Finds the backend registered under `id`, available or not. NotFound as for ec_backend_require. */
ec_status ec_backend_registered(const char *id, const ec_backend **out, ec_error *err);

/* Finds the backend registered under `id` and available on this machine. The NotFound message lists
 * the registered ones. */
ec_status ec_backend_require(const char *id, const ec_backend **out, ec_error *err);

/* Returns a sentence about what a missing or unavailable backend needs; NULL: nothing is known, or
 * nothing is missing. */
const char *ec_backend_lacks(const char *id);

/* Returns the id of the backend that opens a file as a package (packages.def), and says in `*what`
 * which kind of file it is; NULL: none does. */
const char *ec_backend_of_package(const uint8_t *data, size_t size, const char **what);

/* Backends in order of registration. */
size_t ec_backend_count(void);
const ec_backend *ec_backend_at(size_t index);

/* True if the backend is registered and reports that it can run here. */
bool ec_backend_is_available(const char *id);

#endif
