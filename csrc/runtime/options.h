/* Options of backends: those of the process. (Those of a method: ec_method_options.) */
#ifndef EC_RUNTIME_OPTIONS_H
#define EC_RUNTIME_OPTIONS_H

#include "core/error.h"
#include "executorch_c/backend.h"

/* Sets an option of a backend. Errors: NotFound (backend, or key, listing those that there are),
 * NotSupported (a backend without options), and what the backend says. */
ec_status ec_option_set(const char *id, const ec_backend_option *option, ec_error *err);

/* Fills in kind and value of option->key; a string is a copy, to be freed with ec_free. */
ec_status ec_option_get(const char *id, ec_backend_option *option, ec_error *err);

#endif
