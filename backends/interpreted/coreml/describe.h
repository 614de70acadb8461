/* The contents of a payload. */
#ifndef ECM_DESCRIBE_H
#define ECM_DESCRIBE_H

#include "executorch_c/backend.h"

uint32_t ecm_describe(void *graph, const ec_backend_visitor *visitor);

#endif
