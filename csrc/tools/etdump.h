/* ETDump: times of a method's calls, for the official Inspector. */
#ifndef EC_TOOLS_ETDUMP_H
#define EC_TOOLS_ETDUMP_H

#include "executorch_c/executorch_c.h"

typedef struct etdump etdump;

/* Begins to record the calls of a method. Returns NULL, with a message, without memory and in small
 * builds. */
etdump *etdump_begin(ecr_method *method, ecr_error *error);
/* Ends the record and frees it; writes it to a file if `path` is not NULL. Returns false, and sets
 * errno, if the file cannot be written. */
bool etdump_end(etdump *dump, const char *path);

#endif
