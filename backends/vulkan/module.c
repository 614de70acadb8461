/* The extension module executorch_c._backend_vulkan, which exports the backend as a capsule. */
#include <Python.h>

#include "executorch_c/module.h"
#include "vulkan_backend.h"

EC_BACKEND_MODULE(_backend_vulkan, "Backend VulkanBackend, interpreted on the CPU.", &ecv_backend)
