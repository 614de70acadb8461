/* The extension module executorch_c._backend_native, which exports the backend as a capsule. */
#include <Python.h>

#include "executorch_c/module.h"
#include "native_backend.h"

EC_BACKEND_MODULE(_backend_native, "Backend NativeBackend, interpreted on the CPU.", &ecn_backend)
