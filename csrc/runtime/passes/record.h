/* Which kernel calls may record their loops (kernels/record.h). */
#ifndef EC_RUNTIME_PASSES_RECORD_H
#define EC_RUNTIME_PASSES_RECORD_H

#include "runtime/passes/pass.h"

/* Lets kernel calls whose arguments never change be recorded, and calls of delegates repeated. */
ec_status ec_record_calls(ec_pass_context *p, ec_error *err);

/* Ends the record that a call has filled. `elements`: of the call's tensors. */
void ec_finish_record(const ec_step *step, ec_status status, uint64_t elements);

#endif
