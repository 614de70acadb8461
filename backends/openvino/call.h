/* One call of a function of backend.h. */
#ifndef ECO_CALL_H
#define ECO_CALL_H

#include "executorch_c/backend.h"

typedef struct eco_call {
  const ec_host *host;
  ec_host_call *call;
} eco_call;

#define ECO_FAIL(c, status, ...) (c)->host->fail((c)->call, (status), __VA_ARGS__)

/* Returns early; allowed only while nothing is owned. */
#define ECO_TRY(expression)                                                                        \
  do {                                                                                             \
    const uint32_t eco_status = (expression);                                                      \
    if (eco_status) return eco_status;                                                             \
  } while (0)

#endif
