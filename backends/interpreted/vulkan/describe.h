/* The contents of a payload for display. */
#ifndef ECV_DESCRIBE_H
#define ECV_DESCRIBE_H

#include "payload.h"

uint32_t ecv_describe(const ec_backend_call *c, const ec_backend_init *what,
                      const ec_backend_visitor *visitor);

#endif
