/* The contents of a payload as text. */
#ifndef ECN_DESCRIBE_H
#define ECN_DESCRIBE_H

#include "executorch_c/backend.h"

uint32_t ecn_describe(void *graph, const ec_backend_visitor *visitor);

#endif
