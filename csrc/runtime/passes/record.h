/* Which kernel calls may record their loops (kernels/record.h). */
#ifndef EC_RUNTIME_PASSES_RECORD_H
#define EC_RUNTIME_PASSES_RECORD_H

#include "runtime/memory/uses.h"

/* Gives an empty record to each kernel call whose arguments never change: after placement. */
ec_status ec_prepare_records(ec_method *m, const ec_uses *uses, ec_error *err);

/* Ends the record that a call has filled. `elements`: of the call's tensors. */
void ec_finish_record(const ec_instr *in, ec_status status, uint64_t elements);

#endif
