/* Registration of backends from capsules, passed to register_backend or found through entry points.
 * executorch_c/_backends.py reads the entry points, with those of operators. */
#include "python/state.h"

#include "python/backends.h"

#include "backend/registry.h"
#include "python/errors.h"
#include "python/objects.h"

int ecpy_register_backend(ecpy_state *state, PyObject *capsule) {
  if (!PyCapsule_IsValid(capsule, EC_BACKEND_CAPSULE)) {
    PyErr_Format(PyExc_TypeError, "expected a capsule named \"%s\", got %.200s",
                 EC_BACKEND_CAPSULE, ecpy_type_name(capsule));
    return -1;
  }
  const ec_backend *backend = PyCapsule_GetPointer(capsule, EC_BACKEND_CAPSULE);
  ec_error err;
  ec_error_clear(&err);
  if (PyList_Append(state->capsules, capsule)) return -1;
  if (ec_backend_register(backend, &err) != EC_OK) {
    ecpy_raise(state, &err);
    return -1;
  }
  return 0;
}

int ecpy_discover_until(ecpy_state *state, ecpy_stage stage) {
  if (state->discovered >= stage) return 0;
  /* The functions run once; concurrent callers wait inside them. */
  const char *function = stage == ECPY_FOUND_ALL ? "discover" : "discover_first";
  PyObject *result = ecpy_call_python("executorch_c._backends", function, NULL);
  if (!result) return -1;
  Py_DECREF(result);
  if (state->discovered < stage) state->discovered = stage;
  return 0;
}

int ecpy_discover(ecpy_state *state) { return ecpy_discover_until(state, ECPY_FOUND_ALL); }

int ecpy_discover_for(ecpy_state *state, const char *id) {
  return ec_backend_find(id) ? 0 : ecpy_discover(state);
}
