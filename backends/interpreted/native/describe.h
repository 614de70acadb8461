/* The contents of a payload as text. */
#ifndef ECN_DESCRIBE_H
#define ECN_DESCRIBE_H

#include "payload.h"

uint32_t ecn_describe(const ec_backend_call *c, const ec_backend_init *what,
                      const ec_backend_visitor *visitor);

#endif
