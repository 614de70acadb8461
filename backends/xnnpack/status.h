/* Statuses of XNNPACK: their names, and the codes of backend.h for them. */
#ifndef ECX_STATUS_H
#define ECX_STATUS_H

#include "call.h"

const char *ecx_status_name(enum xnn_status status);

uint32_t ecx_status_code(enum xnn_status status);

#endif
