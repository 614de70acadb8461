/* One call of init or execute: its host and errors; limits for hostile input. */
#ifndef ECX_CALL_H
#define ECX_CALL_H

#include <xnnpack.h>

#include "executorch_c/backend.h"

/* Limits for hostile input. */
enum {
  ECX_MAX_EXTERNS = 4096, /* the reference's */
  ECX_MAX_ID = 1 << 20,   /* of a value; the exporter counts from 0 */
  ECX_MAX_INPUTS = 5,
  ECX_MAX_OUTPUTS = 2,
  ECX_TEXT = 320 /* bytes of a part of a message */
};
/* Bytes allocated after the end of memory that XNNPACK reads: it may read up to XNN_EXTRA_BYTES
 * beyond the end. */
enum { ECX_EXTRA = 2 * XNN_EXTRA_BYTES };
#define ECX_MAX_VALUE_BYTES ((size_t)1 << 34)
#define ECX_NONE UINT32_MAX

/* One call of init or execute. */
typedef struct ecx_call {
  const ec_host *host;
  ec_host_call *call;
} ecx_call;

/* Sets the message and returns the status. */
#define ecx_fail(c, ...) ((c)->host->fail((c)->call, __VA_ARGS__))

#define ECX_TRY(expression)                                                                        \
  do {                                                                                             \
    uint32_t ecx_try_status = (expression);                                                        \
    if (ecx_try_status) return ecx_try_status;                                                     \
  } while (0)

#endif
