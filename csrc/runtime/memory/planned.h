/* Planned memory of a method. */
#ifndef EC_RUNTIME_MEMORY_PLANNED_H
#define EC_RUNTIME_MEMORY_PLANNED_H

#include "runtime/native.h"

enum { EC_SLACK = 64 }; /* bytes, for libraries that read beyond the end of a tensor */

/* Reads and checks the sizes of planned memory. */
ec_status ec_load_memory_sizes(ec_method *m, const ec_rows *rows, ec_error *err);

/* Allocates planned memory, or borrows the program's shared state, and sets the addresses of the
 * tensors in it. Values and instructions must be loaded. */
ec_status ec_load_memory(ec_method *m, const ec_rows *rows, ec_error *err);

/* True if bytes are in planned memory, or among the few after it that can be read. */
bool ec_is_planned(const ec_method *m, const void *data, size_t size);

#endif
