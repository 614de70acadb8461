/* The contents of a payload, for `inspect` and `explain`. */
#ifndef ETS_DESCRIBE_H
#define ETS_DESCRIBE_H

#include "executorch_c/backend.h"

uint32_t ets_describe(void *graph, const ec_backend_visitor *visitor);

#endif
