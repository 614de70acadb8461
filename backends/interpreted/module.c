/* The extension module executorch_c._backend_interpreted: exports the backends as capsules. */
#include <Python.h>

#include "backends.h"
#include "executorch_c/module.h"

EC_BACKEND_MODULE(_backend_interpreted,
                  "CoreMLBackend, MLXBackend, NativeBackend, TOSABackend, VgfBackend and "
                  "VulkanBackend, interpreted on the CPU.",
                  &ecm_backend, &emx_backend, &ecn_backend, &ets_backend, &ets_vgf_backend,
                  &ecv_backend)
