/* The contents of a payload for display. */
#ifndef ECO_DESCRIBE_H
#define ECO_DESCRIBE_H

#include "executorch_c/backend.h"

/* Shows the layers of the model and their values; nothing is compiled, the engine is not needed. */
uint32_t eco_describe(const ec_backend_call *c, const ec_backend_init *what,
                      const ec_backend_visitor *visitor);

#endif
