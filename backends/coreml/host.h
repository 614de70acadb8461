/* One call of init or describe, and its failures. */
#ifndef ECM_HOST_H
#define ECM_HOST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "../translate/names.h"

typedef struct ecm_call {
  const ec_host *host;
  ec_host_call *call;
} ecm_call;

/* Sets the message and returns the status. */
#define ecm_fail(c, ...) ((c)->host->fail((c)->call, __VA_ARGS__))

#define ECM_TRY(expression)                                                                        \
  do {                                                                                             \
    const uint32_t ecm_try_status = (expression);                                                  \
    if (ecm_try_status) return ecm_try_status;                                                     \
  } while (0)

typedef ect_text ecm_bytes;

/* Returns the precision of "%.*s" that shows at most `most` bytes. */
static inline int ecm_clip(ecm_bytes text, int most) {
  return text.size < (size_t)most ? (int)text.size : most;
}

#endif
