/* Status codes: the reference runtime's numbers, listed in status.def. */
#ifndef EC_CORE_STATUS_H
#define EC_CORE_STATUS_H

#include <stdint.h>

typedef enum ec_status {
#define EC_STATUS(name, code, sentence, pyclass, pybase) EC_##name = (code),
#include "core/status.def"
#undef EC_STATUS
} ec_status;

/* Returns the message of a status ("invalid argument"), or "unknown status". */
const char *ec_status_sentence(ec_status status);

#endif
