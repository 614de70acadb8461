/* Statuses and messages of the interface. */
#ifndef EC_API_STATUS_H
#define EC_API_STATUS_H

#include "core/error.h"
#include "executorch_c/executorch_c.h"

/* Copies the status and the message (empty on success) to the caller. Returns the code of the
 * reference runtime. */
ecr_status ecr_report(ec_status status, const ec_error *from, ecr_error *to);

#endif
