/* The extension module executorch_c._backend_coreml, which exports the backend as a capsule. */
#include <Python.h>

#include "coreml_backend.h"
#include "executorch_c/module.h"

EC_BACKEND_MODULE(_backend_coreml, "Backend CoreMLBackend, interpreted on the CPU.", &ecm_backend)
