/* The memory of a call: planned, or the caller's. */
#ifndef EC_RUNTIME_MEMORY_PLACEMENT_H
#define EC_RUNTIME_MEMORY_PLACEMENT_H

#include "runtime/memory/uses.h"

/* Decides which inputs are used in place and which outputs are written directly, allocates
 * unplanned state, and lists the tensors that a call may redirect. */
ec_status ec_place_tensors(ec_method *m, const ec_uses *uses, ec_error *err);

/* Notes in a method with jumps which tensors an instruction of the running call wrote. */
void ec_mark_written(const ec_method *m, const ec_instr *in);

#endif
