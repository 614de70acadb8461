/* The backend exported by module.c. */
#ifndef ECX_XNNPACK_BACKEND_H
#define ECX_XNNPACK_BACKEND_H

#include "executorch_c/backend.h"

extern const ec_backend ecx_backend;

#endif
