/* The backends. */
#ifndef ETS_TOSA_BACKEND_H
#define ETS_TOSA_BACKEND_H

#include "executorch_c/backend.h"

extern const ec_backend ets_backend, ets_vgf_backend;

#endif
