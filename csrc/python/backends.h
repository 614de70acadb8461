/* Registering and finding backends from Python. */
#ifndef EC_PYTHON_BACKENDS_H
#define EC_PYTHON_BACKENDS_H

#include "python/state.h"

/* Registers the backend of a capsule, which is kept alive. */
int ecpy_register_backend(ecpy_state *state, PyObject *capsule);

/* Loads the entry points of installed backends and operators, once a process. Called when a program
 * needs one that is not there, or when they are listed. */
int ecpy_discover(ecpy_state *state);
/* The same where the backend of this id is not there yet. */
int ecpy_discover_for(ecpy_state *state, const char *id);

#endif
