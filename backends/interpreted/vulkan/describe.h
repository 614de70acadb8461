/* The contents of a payload for display. */
#ifndef ECV_DESCRIBE_H
#define ECV_DESCRIBE_H

#include "executorch_c/backend.h"

uint32_t ecv_describe(void *graph, const ec_backend_visitor *visitor);

#endif
