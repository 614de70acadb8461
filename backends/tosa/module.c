/* The extension module executorch_c._backend_tosa, which exports the backend as a capsule. */
#include <Python.h>

#include "executorch_c/module.h"
#include "tosa_backend.h"

EC_BACKEND_MODULE(_backend_tosa, "Backend TOSABackend, interpreted on the CPU.", &ets_backend)
