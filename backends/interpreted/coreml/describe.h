/* The contents of a payload. */
#ifndef ECM_DESCRIBE_H
#define ECM_DESCRIBE_H

#include "host.h"

uint32_t ecm_describe(const ec_backend_call *c, const ec_backend_init *what,
                      const ec_backend_visitor *visitor);

#endif
