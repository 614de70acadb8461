/* The backend and its operators. */
#ifndef ECV_VULKAN_BACKEND_H
#define ECV_VULKAN_BACKEND_H

#include "executorch_c/backend.h"

extern const ec_backend ecv_backend;

#endif
