/* The extension module executorch_c._backend_tosa, which exports the backends as capsules. */
#include <Python.h>

#include "executorch_c/module.h"
#include "tosa_backend.h"

EC_BACKEND_MODULE(_backend_tosa, "Backends TOSABackend and VgfBackend, interpreted on the CPU.",
                  &ets_backend, &ets_vgf_backend)
