/* The extension module executorch_c._backend_demo, which exports the backends as capsules. */
#include <Python.h>

#include "demo.h"
#include "executorch_c/module.h"

EC_BACKEND_MODULE(_backend_demo, "Backends BackendWithCompilerDemo and ExecutorBackend.",
                  &demo_compiler_backend, &demo_executor_backend)
