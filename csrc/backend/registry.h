/* The registry of backends: by the id that .pte files carry. */
#ifndef EC_BACKEND_REGISTRY_H
#define EC_BACKEND_REGISTRY_H

#include <stddef.h>

#include "core/error.h"
#include "executorch_c/backend.h"

enum { EC_MAX_BACKENDS = 64 };

/* An optional member; NULL where it is not set, or where the backend's struct is from a header that
 * did not have it yet: the bytes behind struct_size are not ours to read. */
#define EC_BACKEND_MEMBER(backend, member) \
  ((backend)->struct_size >= offsetof(ec_backend, member) + sizeof((backend)->member) \
       ? (backend)->member : NULL)

/* Registers a backend, which must outlive the process. Registering the same pointer again is
 * allowed; another one under the same id is RegistrationExists; a wrong abi_version or missing
 * members InvalidArgument. Calls are serialised by a lock. */
ec_status ec_backend_register(const ec_backend *backend, ec_error *err);

/* NULL where no backend has that id. */
const ec_backend *ec_backend_find(const char *id);

/* The backend that is registered under an id and available here. NotFound lists what there is. */
ec_status ec_backend_require(const char *id, const ec_backend **out, ec_error *err);

/* In order of registration. */
size_t ec_backend_count(void);
const ec_backend *ec_backend_at(size_t index);

/* Whether it is registered and says that it can run here. */
bool ec_backend_is_available(const char *id);

#endif
