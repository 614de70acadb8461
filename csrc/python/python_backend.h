/* Backends written in Python: registration, and the functions that call them. */
#ifndef EC_PYTHON_PYTHON_BACKEND_H
#define EC_PYTHON_PYTHON_BACKEND_H

#include "executorch_c/backend.h"
#include "python/state.h"

/* Registers an adapter of executorch_c/_python_backends.py: args are the id, the version, the name
 * of the class, the names of options (a tuple), the adapter, and whether it may replace one. */
int ecpy_register_python_backend(ecpy_state *state, PyObject *args);

/* Unregisters a backend written in Python. Raises NotFoundError. */
int ecpy_unregister_backend(ecpy_state *state, PyObject *id);

/* Unregisters all of this module, at the end of the interpreter. */
void ecpy_unregister_python_backends(ecpy_state *state);

/* Returns the object of a delegate, borrowed, for the garbage collector; NULL: not one of ours. */
PyObject *ecpy_backend_object(const ec_backend *backend, void *handle);

#endif
