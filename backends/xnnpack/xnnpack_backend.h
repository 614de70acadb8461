/* The backend that module.c hands out. */
#ifndef ECX_XNNPACK_BACKEND_H
#define ECX_XNNPACK_BACKEND_H

#include "executorch_c/backend.h"

extern const ec_backend ecx_backend;

/* The table Graph of payload.def: for fuzzers, which change numbers and vectors of a payload. */
const struct ec_fb_schema *ecx_payload_schema(void);

#endif
