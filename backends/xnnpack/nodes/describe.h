/* The contents of a payload as text. */
#ifndef ECX_NODES_DESCRIBE_H
#define ECX_NODES_DESCRIBE_H

#include "call.h"

uint32_t ecx_describe(const ecx_call *c, const ec_backend_init *what,
                      const ec_backend_visitor *visitor);

#endif
