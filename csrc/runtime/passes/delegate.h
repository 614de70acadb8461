/* Load-time delegation: runs of kernel calls handed to a backend. */
#ifndef EC_RUNTIME_PASSES_DELEGATE_H
#define EC_RUNTIME_PASSES_DELEGATE_H

#include "runtime/passes/pass.h"

/* Returns NotFound if calls are to be handed to backends that are not registered yet (the option
 * backends_unknown): not for methods with little work. Call it before the costly stages. */
ec_status ec_check_delegating_backends(const ec_method *m, ec_error *err);

/* Hands runs of kernel calls to the backend that can take them.
 * What it refuses stays as it is. */
ec_status ec_delegate_calls(ec_pass_context *p, ec_error *err);

#endif
