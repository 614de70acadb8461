/* Registration and discovery of backends from Python. */
#ifndef EC_PYTHON_BACKENDS_H
#define EC_PYTHON_BACKENDS_H

#include "python/state.h"

/* Registers the backend in a capsule and keeps the capsule alive. */
int ecpy_register_backend(ecpy_state *state, PyObject *capsule);

/* Loads the entry points of installed backends and operators, once per process. Called when a
 * program needs a missing one, and before listing them. */
int ecpy_discover(ecpy_state *state);
/* Loads the entry points until a stage is reached. */
int ecpy_discover_until(ecpy_state *state, ecpy_stage stage);
/* Loads the entry points if the backend `id` is not registered yet. */
int ecpy_discover_for(ecpy_state *state, const char *id);

#endif
