/* BackendCall: what a function of a Python backend may ask the runtime during a call. */
#ifndef EC_PYTHON_BACKEND_CALL_H
#define EC_PYTHON_BACKEND_CALL_H

#include "executorch_c/backend.h"
#include "python/state.h"

extern PyType_Spec ecpy_backend_call_spec;

/* Returns a new BackendCall. `ecpy_backend_call_end` must be called before `call` ends. */
PyObject *ecpy_backend_call_new(ecpy_state *state, const ec_host *host, ec_host_call *call);
/* Ends the call: methods of the object raise from now on. Takes the reference; NULL is allowed. */
void ecpy_backend_call_end(PyObject *object);

#endif
