/* The backend of this folder, exported by module.c. */
#ifndef ECN_NATIVE_BACKEND_H
#define ECN_NATIVE_BACKEND_H

#include "executorch_c/backend.h"

extern const ec_backend ecn_backend;

#endif
