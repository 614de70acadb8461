/* One call of a kernel or a delegate. */
#ifndef EC_RUNTIME_CALLS_H
#define EC_RUNTIME_CALLS_H

#include "runtime/native.h"

/* Runs the kernel of a step, outside of a call of the method, too. With `joined` it leaves its loop
 * there, if it can. */
ec_status ec_run_kernel(ec_method *m, const ec_step *step, ec_joined *joined, ec_error *err);

/* Executes the delegate of a DelegateCall. */
ec_status ec_run_delegate(ec_method *m, const ec_instr *in, ec_error *err);

/* Makes calls note their operator or backend from now on; before the first call. */
void ec_keep_running(void);

/* Returns the operator or backend of the call that began last, for handlers of signals; NULL: none
 * runs, or nothing was noted. */
const char *ec_running(void);

/* True for the status of a delegate made at load that cannot compute with the values of this call.
 * It has changed no input. */
bool ec_is_declined(ec_status status);

#endif
