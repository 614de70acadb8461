/* The backend. */
#ifndef ECM_COREML_BACKEND_H
#define ECM_COREML_BACKEND_H

#include "executorch_c/backend.h"

extern const ec_backend ecm_backend;

#endif
