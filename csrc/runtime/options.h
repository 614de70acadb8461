/* Backend options of the process. (Those of a method: ec_method_options.) */
#ifndef EC_RUNTIME_OPTIONS_H
#define EC_RUNTIME_OPTIONS_H

#include "core/error.h"
#include "executorch_c/backend.h"

/* Sets an option of a backend. Errors: NotFound (backend, or key, listing the known ones),
 * NotSupported (a backend without options), and errors of the backend. */
ec_status ec_option_set(const char *id, const ec_backend_option *option, ec_error *err);

/* Reads option->key into kind and value. A string is a copy; free it with ec_free. */
ec_status ec_option_get(const char *id, ec_backend_option *option, ec_error *err);

#endif
