/* Packages: files that are no .pte, which a backend opens as programs (backend/packages.def). */
#ifndef EC_RUNTIME_PACKAGE_H
#define EC_RUNTIME_PACKAGE_H

#include "executorch_c/backend.h"
#include "format/named_data.h"
#include "format/source.h"

/* A zeroed package is closed. */
typedef struct ec_package {
  ec_backend_package opened; /* program NULL: the file is none */
  ec_named_list items;
  bool *is_copied; /* by cache line of the copies */
} ec_package;

/* Opens a file if its first bytes are those of a package. The file has to stay open; the list of
 * items is in the arena. Errors: NotFound (no backend for it), those of the backend. */
ec_status ec_package_open(ec_package *out, const ec_source *file, ec_arena *arena, ec_error *err);
/* Copies an item to its room once. Returns NULL if it has none. Calls must not be concurrent. */
const void *ec_package_copy(const ec_package *package, const ec_named_data *item);
void ec_package_close(ec_package *package);

/* Calls open_package of a backend. Defined in host.c, which has the functions for backends. */
ec_status ec_host_open_package(const ec_backend *backend, const ec_source *file,
                               ec_backend_package *out, ec_error *err);

#endif
