/* The extension module executorch_c._backend_xnnpack, which exports the backend as a capsule. */
#include <Python.h>

#include "executorch_c/module.h"
#include "xnnpack_backend.h"

EC_BACKEND_MODULE(_backend_xnnpack, "Backend XnnpackBackend.", &ecx_backend)
