/* Planned memory of a method. */
#ifndef EC_RUNTIME_LOAD_MEMORY_H
#define EC_RUNTIME_LOAD_MEMORY_H

#include "runtime/native.h"

/* Reads and checks the sizes of planned memory. */
ec_status ec_load_memory_sizes(ec_method *m, const ec_plan *plan, ec_error *err);

/* Allocates planned memory, or has the program's where it is shared state, and points the tensors
 * that are placed there at it. Values and instructions are loaded. */
ec_status ec_load_memory(ec_method *m, const ec_plan *plan, ec_error *err);

#endif
